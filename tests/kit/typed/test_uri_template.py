from __future__ import annotations

import pytest

from mcp_ref.kit.typed.uri_template import MAX_URI_LENGTH, UriTemplate

# -- reading --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        "{",
        "}",
        "a}b",
        "{a",
        "{{a}}",
        "{}",
        "{=a}",
        "{|a}",
        "{a b}",
        "{a,}",
        "{a:0}",
        "{a:12345}",
        "{a..b}",
        "%zz",
        "a b",
    ],
)
def test_refuses_a_text_that_is_not_a_template(text: str) -> None:
    with pytest.raises(ValueError, match="URI template"):
        UriTemplate(text)


AMBIGUOUS = {
    # why it could mean several things: templates that could
    "between a and b": ["x://{a}{b}", "x://{a}{+b}"],
    "`\\*`": ["x://{a*}", "x://{?a*}"],
    "`:`": ["x://{a:3}"],
    "several variables": ["x://{+a,b}", "x://{#a,b}"],
    "follows {\\+": ["x://{+a}/{b}"],
    "twice": ["x://{a}/{a}", "x://{a}{?a}"],
    "something follows": ["x://s{?a}/b", "x://s{#a}{?b}", "x://s{?a}{?b}"],
    "begins with": ["x://s{&a}", "x://s?c=1{?a}", "x://s?c={c}{&a}"],
    "`#`": ["x://s#here{?a}"],
}


@pytest.mark.parametrize(("why", "template"), [(why, each) for why, several in AMBIGUOUS.items() for each in several])
def test_a_template_that_could_mean_several_things_is_refused(why: str, template: str) -> None:
    with pytest.raises(ValueError, match=why):
        UriTemplate(template)


# -- matching -----------------------------------------------------------------------------------------------------

ENCODED = "x://%C3%BC%20%26%3F%23%25/50%25.x;d=~-_"


@pytest.mark.parametrize(
    ("template", "uri", "values"),
    [
        ("weather://{city}/now", "weather://Lisbon/now", {"city": "Lisbon"}),
        ("weather://{city}/now", "weather://S%C3%A3o%20Paulo/now", {"city": "São Paulo"}),
        ("weather://{city}/now", "weather://Zürich/now", {"city": "Zürich"}),
        ("x://{a}-{b}", "x://1-2-3", {"a": "1", "b": "2-3"}),
        ("x://{id}.json", "x://a.json.json", {"id": "a.json"}),
        ("x://{a,b}", "x://1,2", {"a": "1", "b": "2"}),
        ("x://h{/a,b}", "x://h/1/2", {"a": "1", "b": "2"}),
        ("x://file{.ext}", "x://file.md", {"ext": "md"}),
        ("x://h{;a,b}", "x://h;a=1;b=2", {"a": "1", "b": "2"}),
        ("file:///{+path}", "file:///src/main.rs", {"path": "src/main.rs"}),
        ("file:///{+path}/meta", "file:///a/meta/meta", {"path": "a/meta"}),
        ("x://s{?q,lang}", "x://s", {}),
        ("x://s{?q,lang}", "x://s?lang=de&q=and/or%26", {"q": "and/or&", "lang": "de"}),
        ("x://s{?q}{&lang}", "x://s?q=&lang=de", {"q": "", "lang": "de"}),
        ("x://s?v=1{&q}", "x://s?v=1&q=a", {"q": "a"}),
        ("x://{+p}{?q}{#f}", "x://a/b?q=c#d", {"p": "a/b", "q": "c", "f": "d"}),
        ("x://s?a={a}", "x://s?a=1", {"a": "1"}),
        ("x://fixed", "x://fixed", {}),
        ("x://ü/%20", "x://%C3%BC/%20", {}),
        ("x://{a}{/b}{.c}{;d}", ENCODED, {"a": "ü &?#%", "b": "50%", "c": "x", "d": "~-_"}),
        # A value is decoded once, and dots inside names are names.
        ("x://{v}", "x://%252e%252e", {"v": "%2e%2e"}),
        ("x://{+p}", "x://a/...b/..c/d..", {"p": "a/...b/..c/d.."}),
    ],
)
def test_a_uri_gives_its_values_back(template: str, uri: str, values: dict[str, str]) -> None:
    assert UriTemplate(template).match(uri) == values


UNFIT = {
    "weather://{city}/now": [
        "weather:///now", "weather://a/b/now", "weather://a/now/", "weather://a?b/now", "weather://a#b/now",
        "weather://a/now?x=1",
    ],
    "x://ab{v}bc": ["x://abc"],
    "x://{a}-{b}": ["x://-b", "x://ab"],
    "x://{a}2{b}": ["x://a%20"],
    "x://{v}": ["x://%zz", "x://%ff", "x://a%", "x://a b", "x://a\nb", "y://a"],
    "x://s{?q}": ["x://s?q=1&q=2", "x://s?other=1", "x://s?q=1#f"],
    "x://s?v=1{&q}": ["x://s?q=a", "x://s?v=12"],
    "x://fixed": ["x://fixed/"],
}  # fmt: skip


@pytest.mark.parametrize(("template", "uri"), [(template, uri) for template in UNFIT for uri in UNFIT[template]])
def test_a_uri_that_does_not_fit_matches_nothing(template: str, uri: str) -> None:
    assert UriTemplate(template).match(uri) is None


SEGMENTS = [
    ".", "..", "%2e%2e", "%2E.", ".%2e", "a%2Fb", "a%2fb", "%2Fetc%2Fpasswd", "..%2f..%2fetc", "..%5c..%5cwindows",
    "a%5Cb", "a\\b", "a%00b", "a\x00b", "a/b", "",
]  # fmt: skip
PATHS = [
    "..", "../etc/passwd", "a/../../etc/passwd", "a/..", "%2e%2e/etc", "a/%2e%2e/etc", "a%2f..%2fetc", "a%2F%2e%2E",
    "/etc/passwd", "%2Fetc/passwd", "//server/share", "C:/windows", "c%3A/windows", "a%5c..%5cb", "..\\windows",
    "a%00.txt", "",
]  # fmt: skip
VALUES = ["../x", "%2e%2e%2fx", "/etc", "%2Fetc", "a%5Cb", "a%00"]
IN_NO_URI = ["a b", "a\tb", "a\nb", "a\x00b", "a\x7fb", '"a"', "<a>", "a\\b", "a^b", "a`b", "{a}", "a|b"]


@pytest.mark.parametrize(
    ("template", "uri", "hostile"),
    [
        ("file:///{v}", "file:///%s", [*SEGMENTS, *IN_NO_URI]),
        ("file:///x/{v}/y", "file:///x/%s/y", SEGMENTS),
        ("file:///{+v}", "file:///%s", [*PATHS, *IN_NO_URI]),
        ("x://s{?v}", "x://s?v=%s", [*VALUES, *IN_NO_URI]),
        ("x://s{#v}", "x://s#%s", VALUES),
    ],
)
def test_no_value_leaves_its_segment_or_climbs_out_or_has_characters_that_no_uri_has(
    template: str, uri: str, hostile: list[str]
) -> None:
    read = UriTemplate(template)
    assert read.match(uri % "ab") == {"v": "ab"}
    assert [each for each in hostile if read.match(uri % each) is not None] == []


def test_a_uri_of_more_characters_than_the_bound_matches_nothing() -> None:
    template = UriTemplate("x://{v}")
    assert template.match("x://" + "a" * (MAX_URI_LENGTH - 4)) is not None
    assert template.match("x://" + "a" * (MAX_URI_LENGTH - 3)) is None


def test_a_uri_made_to_mislead_costs_one_pass() -> None:
    template = UriTemplate("x://" + "-".join(f"{{v{n}}}" for n in range(50)) + "!")
    assert template.match("x://" + "-" * 8000) is None
    assert template.match("x://" + "a-" * 4000) is None


def test_the_variables_that_a_uri_may_leave_out_are_known() -> None:
    template = UriTemplate("x://{a}{?b,c}{#d}")
    assert template.variables == ("a", "b", "c", "d")
    assert template.optional == {"b", "c", "d"}
