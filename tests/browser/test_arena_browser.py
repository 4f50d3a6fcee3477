"""The page of the arena in a browser: people can read it, and sort its tables without a mouse."""

from __future__ import annotations

from pathlib import Path

import pytest
from browsing import assert_accessible_and_fits, visited
from playwright.sync_api import Browser

from aceirl.bench.arena import Entries
from aceirl.bench.arena_page import write_page
from aceirl.bench.methods import METHODS
from aceirl.bench.store import Store
from aceirl.bench.sweep import Here, sweep
from aceirl.bench.tasks import TASKS


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("arena")
    methods = tuple(METHODS[name] for name in ("guided", "random", "cloning", "uniform"))
    tasks = tuple(TASKS[name].model_copy(update={"budget": 60}) for name in ("lock", "gridworld"))
    entries, store = Entries(methods, tasks, seeds=3), Store(out / "runs")
    *_, last = sweep(entries.cells, store, Here())
    assert last.failed == 0
    return write_page(entries, store, out, command="aceirl arena").path


def test_the_page_is_accessible_and_fits_a_phone(chrome: Browser, page: Path) -> None:
    with visited(chrome, page.as_uri()) as shown:
        assert_accessible_and_fits(shown)


def test_a_table_is_sorted_with_the_keyboard_and_says_so(chrome: Browser, page: Path) -> None:
    with visited(chrome, page.as_uri()) as shown:
        table = shown.locator("table[data-sortable]").first
        heads = table.locator("thead th")
        seconds = heads.nth(heads.count() - 1)
        button = seconds.locator("button")
        cells = table.locator("tbody tr td:last-child")

        def values() -> list[float]:
            return [float(text) for text in cells.all_inner_texts()]

        before = values()
        button.focus()
        shown.keyboard.press("Enter")
        assert seconds.get_attribute("aria-sort") == "ascending"
        assert values() == sorted(before)
        shown.keyboard.press("Enter")
        assert seconds.get_attribute("aria-sort") == "descending"
        assert values() == sorted(before, reverse=True)
        heads.first.locator("button").press("Space")
        assert seconds.get_attribute("aria-sort") is None
        names = table.locator("tbody th").all_inner_texts()
        assert names == sorted(names)
