from __future__ import annotations

from functools import partial
from typing import Any

from mcp_ref.kit.typed.handlers import call
from tests.pages.client.fakes import FakeClient


def two(first: Any, second: Any) -> tuple[Any, Any]:
    return first, second


def test_a_function_that_requires_one_argument_more_gets_the_context() -> None:
    client = FakeClient()
    assert call(two, client, "a") == ("a", client)
    assert call(partial(two, "a"), client) == ("a", client)


def test_a_function_that_requires_no_further_argument_gets_no_context() -> None:
    def defaulted(first: Any, second: Any = None) -> tuple[Any, Any]:
        return first, second

    assert call(two, FakeClient(), "a", "b") == ("a", "b")
    assert call(defaulted, FakeClient(), "a") == ("a", None)
    assert call(lambda *values: values, FakeClient(), "a") == ("a",)


def test_a_function_that_python_cannot_look_into_does_not() -> None:
    assert call(dict, FakeClient(), [("a", 1)]) == {"a": 1}
