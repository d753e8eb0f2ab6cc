from __future__ import annotations

from collections.abc import Iterator

import pytest

from . import collector


@pytest.fixture
def no_descriptor_leaks() -> Iterator[None]:
    with collector.no_descriptor_leaks():
        yield
