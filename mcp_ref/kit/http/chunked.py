"""Bodies of requests that come in chunks (RFC 9112 7.1). Nothing of MCP.

`check_coding(coding, length)` looks at the head; `read_chunked(source, most)` reads such a body to its last byte.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from io import BufferedIOBase

from mcp_ref.kit.http.http_exchange import HttpRefusal

MAX_SKIPPED = 64 * 1024
"""Bytes that the extensions of all chunks and the trailers of one body may have together; they are skipped."""

_CHUNK = re.compile(rb"([0-9A-Fa-f]{1,16})((?:[ \t]*;[\t -~\x80-\xff]*)?)\r\n")


def check_coding(coding: str, length: str | None) -> None:
    """Raise HttpRefusal unless a body comes in chunks and nothing else, by `Transfer-Encoding` and `Content-Length`."""
    *others, last = (each.strip(" \t").lower() for each in coding.split(","))
    # MAY: reject a request with both; it could be understood in two ways (RFC 9112 6.1)
    # MUST: 400 where `chunked` is not the last coding: nobody could tell where the body ends (RFC 9112 6.3)
    if length is not None or last != "chunked" or "chunked" in others:
        raise HttpRefusal(400, "Transfer-Encoding must be chunked, and Content-Length be left out")
    if others:
        # SHOULD: 501 for a coding that is not understood (RFC 9112 6.1)
        raise HttpRefusal(501, "The only Transfer-Encoding here is chunked")


def read_chunked(source: BufferedIOBase, most: int, room: Callable[[int], None] = lambda size: None) -> bytes:
    """Read a body in chunks; extensions and trailers are skipped. What `source` blocks on is bounded by its owner.

    Args:
        most: bytes that the body may have.
        room: told how long the body will be at least, before each chunk is read; it may refuse.

    Raises: HttpRefusal: 400 (malformed), 413 (too large); ConnectionError: it breaks off. Nothing more can be read from
        the source then.
    """
    body, spare = bytearray(), MAX_SKIPPED

    def line() -> bytes:
        found = source.readline(spare + 20)  # a size, a line break, and what may be skipped
        if not found.endswith(b"\n") and len(found) < spare + 20:
            raise ConnectionError("the client has hung up in mid-body")
        return found

    while True:
        # MUST: parse the chunked coding, and ignore extensions that are not known (RFC 9112 7.1, 7.1.1)
        matched = _CHUNK.fullmatch(line())
        if matched is None or (spare := spare - len(matched[2])) < 0:
            raise HttpRefusal(400, "A chunk is malformed")
        if not (size := int(matched[1], 16)):
            break
        if len(body) + size > most:
            raise HttpRefusal(413, "Content too large")
        room(len(body) + size)
        chunk = source.read(size + 2)
        if len(chunk) < size + 2:
            raise ConnectionError("the client has hung up in mid-body")
        if chunk[-2:] != b"\r\n":
            raise HttpRefusal(400, "A chunk is malformed")
        body += chunk[:-2]
    # MAY: discard the trailers (RFC 9112 7.1.2)
    while (trailer := line()) != b"\r\n":
        if not trailer.endswith(b"\r\n") or (spare := spare - len(trailer)) < 0:
            raise HttpRefusal(400, "The trailers are malformed, or too long")
    return bytes(body)
