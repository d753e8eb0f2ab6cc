from __future__ import annotations

import pytest

from mcp_ref.kit.typed.uri_template import MAX_URI_LENGTH, UriTemplate

# -- reading --------------------------------------------------------------------------------------------------------


NO_TEMPLATES = [
    "{", "}", "a}b", "{a", "{{a}}", "{}", "{=a}", "{|a}", "{a b}", "{a,}", "{a:0}", "{a:12345}", "{a..b}", "%zz", "a b",
]  # fmt: skip


@pytest.mark.parametrize("text", NO_TEMPLATES)
def test_refuses_a_text_that_is_not_a_template(text: str) -> None:
    with pytest.raises(ValueError, match="URI template"):
        UriTemplate(text)


# -- matching -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("template", "uri", "values"),
    [
        ("weather://{city}/now", "weather://Lisbon/now", {"city": "Lisbon"}),
        ("weather://{city}/now", "weather://S%C3%A3o%20Paulo/now", {"city": "São Paulo"}),
        ("weather://{city}/now", "weather://Zürich/now", {"city": "Zürich"}),
        ("user://{mail}", "user://bob@example.com", {"mail": "bob@example.com"}),
        ("repo://{owner}/{name}", "repo://ada/engine", {"owner": "ada", "name": "engine"}),
        ("x://{a}-{b}", "x://1-2-3", {"a": "1", "b": "2-3"}),
        ("x://{id}.json", "x://a.json.json", {"id": "a.json"}),
        ("x://{a,b}", "x://1,2", {"a": "1", "b": "2"}),
        ("x://h{/a,b}", "x://h/1/2", {"a": "1", "b": "2"}),
        ("x://file{.ext}", "x://file.md", {"ext": "md"}),
        ("x://h{;a,b}", "x://h;a=1;b=2", {"a": "1", "b": "2"}),
        ("file:///{+path}", "file:///src/main.rs", {"path": "src/main.rs"}),
        ("file:///{+path}/meta", "file:///a/meta/meta", {"path": "a/meta"}),
        ("git://{rev}/{+path}", "git://v1/a/b.c", {"rev": "v1", "path": "a/b.c"}),
        ("x://s{?q,lang}", "x://s", {}),
        ("x://s{?q,lang}", "x://s?q=1", {"q": "1"}),
        ("x://s{?q,lang}", "x://s?lang=de&q=and/or%26", {"q": "and/or&", "lang": "de"}),
        ("x://s{?q}{&lang}", "x://s?q=&lang=de", {"q": "", "lang": "de"}),
        ("x://s?v=1{&q}", "x://s?v=1", {}),
        ("x://s?v=1{&q}", "x://s?v=1&q=a", {"q": "a"}),
        ("x://{+p}{?q}{#f}", "x://a/b?q=c#d", {"p": "a/b", "q": "c", "f": "d"}),
        ("x://s{#f}", "x://s", {}),
        ("x://s?a={a}", "x://s?a=1", {"a": "1"}),
        ("x://fixed", "x://fixed", {}),
        ("x://ü/%20", "x://%C3%BC/%20", {}),
        (
            "x://{a}{/b}{.c}{;d}",
            "x://%C3%BC%20%26%3F%23%25/50%25.x;d=~-_",
            {"a": "ü &?#%", "b": "50%", "c": "x", "d": "~-_"},
        ),
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


@pytest.mark.parametrize(
    "hostile",
    [
        ".", "..", "%2e%2e", "%2E.", ".%2e", "a%2Fb", "a%2fb", "%2Fetc%2Fpasswd", "..%2f..%2fetc", "..%5c..%5cwindows",
        "a%5Cb", "a\\b", "a%00b", "a\x00b", "a/b", "",
    ],
)  # fmt: skip
def test_a_simple_value_never_leaves_its_segment(hostile: str) -> None:
    assert UriTemplate("file:///{name}").match(f"file:///{hostile}") is None
    assert UriTemplate("file:///x/{name}/y").match(f"file:///x/{hostile}/y") is None


@pytest.mark.parametrize(
    "hostile",
    [
        "..", "../etc/passwd", "a/../../etc/passwd", "a/..", "%2e%2e/etc", "a/%2e%2e/etc", "a%2f..%2fetc", "a%2F%2e%2E",
        "/etc/passwd", "%2Fetc/passwd", "//server/share", "C:/windows", "c%3A/windows", "a%5c..%5cb", "..\\windows",
        "a%00.txt", "",
    ],
)  # fmt: skip
def test_a_path_value_never_climbs_out(hostile: str) -> None:
    assert UriTemplate("file:///{+path}").match(f"file:///{hostile}") is None


@pytest.mark.parametrize("hostile", ["../x", "%2e%2e%2fx", "/etc", "%2Fetc", "a%5Cb", "a%00"])
def test_values_of_query_and_fragment_are_held_to_the_same_rule(hostile: str) -> None:
    assert UriTemplate("x://s{?q}").match(f"x://s?q={hostile}") is None
    assert UriTemplate("x://s{#q}").match(f"x://s#{hostile}") is None


def test_values_are_decoded_once() -> None:
    assert UriTemplate("x://{v}").match("x://%252e%252e") == {"v": "%2e%2e"}


def test_dots_inside_names_are_names() -> None:
    assert UriTemplate("x://{+p}").match("x://a/...b/..c/d..") == {"p": "a/...b/..c/d.."}


def test_a_uri_of_more_characters_than_the_bound_matches_nothing() -> None:
    template = UriTemplate("x://{v}")
    assert template.match("x://" + "a" * (MAX_URI_LENGTH - 4)) is not None
    assert template.match("x://" + "a" * (MAX_URI_LENGTH - 3)) is None


def test_a_uri_made_to_mislead_costs_one_pass() -> None:
    template = UriTemplate("x://" + "-".join(f"{{v{n}}}" for n in range(50)) + "!")
    assert template.match("x://" + "-" * 8000) is None
    assert template.match("x://" + "a-" * 4000) is None


@pytest.mark.parametrize(
    ("template", "why"),
    [
        ("x://{a}{b}", "between a and b"),
        ("x://{a}{+b}", "between a and b"),
        ("x://{a*}", "`\\*`"),
        ("x://{a:3}", "`:`"),
        ("x://{?a*}", "`\\*`"),
        ("x://{+a,b}", "several variables"),
        ("x://{#a,b}", "several variables"),
        ("x://{+a}/{b}", "follows {\\+"),
        ("x://{a}/{a}", "twice"),
        ("x://{a}{?a}", "twice"),
        ("x://s{?a}/b", "something follows"),
        ("x://s{#a}{?b}", "something follows"),
        ("x://s{?a}{?b}", "something follows"),
        ("x://s{&a}", "begins with"),
        ("x://s?c=1{?a}", "begins with"),
        ("x://s?c={c}{&a}", "begins with"),
        ("x://s#here{?a}", "`#`"),
    ],
)
def test_a_template_that_could_mean_several_things_is_refused(template: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        UriTemplate(template)


def test_the_variables_that_a_uri_may_leave_out_are_known() -> None:
    template = UriTemplate("x://{a}{?b,c}{#d}")
    assert template.variables == ("a", "b", "c", "d")
    assert template.optional == {"b", "c", "d"}


@pytest.mark.parametrize(
    "odd", ["a b", "a\tb", "a\nb", "a\x00b", "a\x7fb", '"a"', "<a>", "a\\b", "a^b", "a`b", "{a}", "a|b"]
)
def test_a_uri_with_characters_that_no_uri_has_matches_nothing(odd: str) -> None:
    for template in ("file:///{a}", "file:///{+a}", "file:///x{?a}"):
        uri = template.partition("{")[0] + ("?a=" if "?" in template else "") + odd
        assert UriTemplate(template).match(uri) is None
    assert UriTemplate("file:///{+a}").match("file:///ab") == {"a": "ab"}
