"""A browser for the tests of a package's pages, and programs to show."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.inspection.page.chromium import Chromium, program


@pytest.fixture(scope="session")
def chromium() -> Iterator[Chromium]:
    path = program()
    if path is None:
        pytest.skip("Chromium is not installed")
    with Chromium(path) as browser:
        yield browser


@pytest.fixture
def browser(chromium: Chromium) -> Iterator[Chromium]:
    """The browser, whose page is left afterwards: one that shows a graph is drawn again and again, without a GPU."""
    chromium.events.clear()
    yield chromium
    chromium.call("Page.navigate", url="about:blank")
