"""Taking secrets out of what is shown: a trace is made to be read by others.

Spec:      basic/authorization#security-considerations; basic/security_best_practices;
           basic/patterns/mrtr#security-considerations (2026-07-28)
Not here:  when it is applied (recording/record)

What counts is how the name ends: of a member of an object, of a parameter in the query of a URL, of a field in text
that is not JSON. A secret under another name stays visible, unless a user typed it into a form. Nothing is changed in
place.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Final

REDACTED: Final = "[redacted]"

_ENDINGS: Final = (
    "authorization", "cookie", "token", "secret", "secret-key", "private-key", "api-key", "access-key",
    "password", "passwd", "passphrase", "card-number",
)  # fmt: skip
_WORDS: Final = ("otp", "pin", "ssn", "cvv", "cvc")  # whole words: a spin is not a secret
_NAMED_BY_OUR_TYPES: Final = ("progresstoken",)
_PLAIN_ENDINGS: Final = tuple(ending.replace("-", "") for ending in _ENDINGS)
_MAX_NAME: Final = 40
_MAX_STATE: Final = 12  # characters of a `requestState` that are shown
_HEADERS: Final = (
    "host", "origin", "accept", "content-type", "authorization", "cookie",
    "mcp-protocol-version", "mcp-session-id", "last-event-id", "mcp-method", "mcp-name",
    "allow", "retry-after", "set-cookie", "www-authenticate", "x-accel-buffering", "cache-control", "location",
)  # fmt: skip

# As `_is_secret` has it, to be found in text by patterns that ignore the case: "access_token", "userPin", "user-pin".
_NAME = (
    r"(?!progress[-_]?token\b)(?:"
    rf"[\w-]{{0,40}}(?:{'|'.join(ending.replace('-', '[-_]?') for ending in _ENDINGS)})"
    rf"|(?:[\w-]{{0,40}}[-_])?(?:{'|'.join(_WORDS)})"
    rf"|(?-i:[\w-]{{0,40}}[a-z](?:{'|'.join(f'{word.title()}|{word.upper()}' for word in _WORDS)})))"
)
_LAST_WORD = re.compile(r"([A-Z]+|[A-Z]?[a-z]+)$")
_USERINFO = re.compile(r"://[^/\s?#]*@")
_QUERY = re.compile(rf"([?&#;]{_NAME}=)[^&#;\s\"'<>]*", re.IGNORECASE)
_FIELD = re.compile(rf"((?<![\w-]){_NAME}\s*[:=]\s*(?:(?:Bearer|Basic)\s+)?)[^\s,;&\"']+", re.IGNORECASE)
# A member in JSON that is quoted as text, perhaps twice, perhaps cut off: "name": "...", \"name\": \"...\", "name": 12
_STRING = r'"(?:[^"\\]|\\.)*"?|\\+"(?:[^"\\]|\\[^"])*(?:\\*")?'
_MEMBER = re.compile(rf'((?<!\\)(\\*"){_NAME}\\*"\s*:\s*)(?:{_STRING}|[^\s,{{}}\[\]"\\]+)', re.IGNORECASE)


@lru_cache(maxsize=1024)
def _is_secret(name: str) -> bool:
    plain = name.lower().replace("-", "").replace("_", "")
    if plain.endswith(_PLAIN_ENDINGS):
        return plain not in _NAMED_BY_OUR_TYPES
    last = _LAST_WORD.search(name)
    return last is not None and last[0].lower() in _WORDS


def is_secret(name: Any) -> bool:
    """Return whether a name ends like that of a secret: "Set-Cookie", "sessionToken", "user_pin", not
    "progressToken".
    """
    return isinstance(name, str) and len(name) <= _MAX_NAME and _is_secret(name)


def redact(value: Any, *, forms: bool = False) -> Any:
    """Return a copy of a JSON value without its secrets.

    The value of a member with a secret's name becomes "[redacted]", whatever it is; so does `value` beside such a
    `name`. A property of a JSON Schema keeps its schema, without the values that it suggests. In strings, the user
    information and the secret parameters of URLs go, and members of JSON that is quoted as text. A `requestState` of
    more than a few characters becomes its beginning and four digits of its hash: whoever has all of it could continue
    somebody else's call, and read what is in it, since it is signed and not encrypted. What a user typed into a form is
    hidden, unless `forms` is true: a server may call the field for a password as it likes.

    Raises:
        RecursionError: the value is nested too deeply.
    """
    if isinstance(value, str):
        return _redact_string(value)
    if isinstance(value, (list, tuple)):
        return [redact(item, forms=forms) for item in value]
    if not isinstance(value, dict):
        return value
    named = is_secret(value.get("name"))
    typed = not forms and value.get("action") == "accept"
    shown: dict[Any, Any] = {}
    for key, item in value.items():
        match key, item:
            case _ if is_secret(key) or (named and key == "value"):
                shown[key] = REDACTED
            case "requestState", str() if len(item) > _MAX_STATE:
                shown[key] = f"{item[:_MAX_STATE]}... [{len(item)} characters, {_digits(item)}]"
            case "content", dict() if typed:
                shown[key] = dict.fromkeys(item, REDACTED)
            case "properties", dict():
                shown[key] = {name: _redact_property(name, schema) for name, schema in item.items()}
            case _:
                shown[key] = redact(item, forms=forms)
    return shown


def _redact_property(name: Any, schema: Any) -> Any:
    """Return a property of a JSON Schema: that there is a password is not a secret, its default value is."""
    if not is_secret(name):
        return redact(schema)
    if not (isinstance(schema, dict) and ("type" in schema or "$ref" in schema)):
        return REDACTED
    hidden = {"default", "const", "enum", "examples", "value"}
    return {key: REDACTED if key in hidden else redact(item) for key, item in schema.items()}


def redact_text(text: str) -> str:
    """Return a copy of text that is not JSON, such as a line of stderr: also `password=...`, `Authorization: Bearer
    ...`.
    """
    return _FIELD.sub(rf"\1{REDACTED}", _redact_string(text))


def redact_headers(headers: Mapping[str, str]) -> dict[str, str]:
    """Return the headers that say something of the protocol, by their names in lower case, without secrets.

    Any other header may hold anything, and is left out. Whoever knows a session id can speak in the session: four
    digits of its hash stand for it, which tell sessions apart and lead nowhere. Of the headers that repeat an argument
    of a call (`Mcp-Param-...`) only the names are shown: the body has the value, under a name that tells whether it is
    a secret.
    """
    found = {name.lower(): value for name, value in headers.items()}
    shown = {}
    for name in filter(found.__contains__, _HEADERS):
        value = found[name]
        if name == "mcp-session-id":
            shown[name] = f"[redacted {_digits(value)}]"
        elif value.startswith("=?"):
            # In base64, as every value outside ASCII must be; the body has it readable, and without secrets.
            shown[name] = "[encoded]"
        else:
            shown[name] = REDACTED if is_secret(name) else redact_text(value)
    return shown | {name: REDACTED for name in found if name.startswith("mcp-param-")}


def redact_http(http: dict[str, Any]) -> dict[str, Any]:
    """Return what a trace shows of `TraceEvent.http`."""
    shown = {name: redact_text(each) if isinstance(each, str) else each for name, each in http.items()}
    return shown | ({"headers": redact_headers(http["headers"])} if "headers" in http else {})


def _digits(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:4]


def _redact_string(text: str) -> str:
    if "://" in text:
        text = _USERINFO.sub(f"://{REDACTED}@", text)
    if "=" in text:
        text = _QUERY.sub(rf"\1{REDACTED}", text)
    if '"' in text:
        text = _MEMBER.sub(rf"\1\2{REDACTED}\2", text)
    return text
