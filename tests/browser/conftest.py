"""One browser for all tests of this folder; each has a context of its own in it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from browsing import browser
from playwright.sync_api import Browser


@pytest.fixture(scope="package")
def chrome() -> Iterator[Browser]:
    with browser() as opened:
        yield opened
