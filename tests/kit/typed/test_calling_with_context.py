from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from mcp_ref.kit.typed.handlers import call

CTX = object()


def two(first: Any, second: Any) -> tuple[Any, Any]:
    return first, second


def defaulted(first: Any, second: Any = None) -> tuple[Any, Any]:
    return first, second


@pytest.mark.parametrize(
    ("function", "arguments", "result"),
    [
        (two, ["a"], ("a", CTX)), (partial(two, "a"), [], ("a", CTX)), (two, ["a", "b"], ("a", "b")),
        (defaulted, ["a"], ("a", None)), (lambda *values: values, ["a"], ("a",)),
        # One that Python cannot look into gets none.
        (dict, [[("a", 1)]], {"a": 1}),
    ],
)  # fmt: skip
def test_a_function_that_requires_one_argument_more_gets_the_context(
    function: Any, arguments: list[Any], result: Any
) -> None:
    assert call(function, CTX, *arguments) == result
