"""A real browser, for the tests of the interview's page and for its pictures."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, Page, sync_playwright

ROOT = Path(__file__).parents[2]
AXE = ROOT / "node_modules" / "axe-core" / "axe.min.js"
SWITCHES = [
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


def chromium() -> str:
    """The path of Chromium; without one the tests fail, since leaving them out is `make test`'s decision."""
    for name in ("chromium", "chromium-browser", "google-chrome"):
        found = shutil.which(name)
        if found:
            return found
    raise AssertionError("no Chromium on the PATH; on Debian and Ubuntu: apt-get install chromium")


@contextmanager
def browser() -> Iterator[Browser]:
    """A headless Chromium."""
    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=chromium(), args=SWITCHES)
        yield opened
        opened.close()


def moment(page: Page) -> dict[str, Any]:
    """What the server would show now."""
    shown: dict[str, Any] = page.evaluate("fetch('view').then((response) => response.json())")
    return shown


def next_question(page: Page, patience: float = 60) -> dict[str, Any]:
    """The next moment at which the person is asked or the interview is over, and the page shows it."""
    deadline = time.monotonic() + patience
    while time.monotonic() < deadline:
        shown = moment(page)
        if shown["phase"] == "asking":
            page.wait_for_function("(words) => document.getElementById('where').textContent.startsWith(words)",
                                   arg=shown["question"]["where"])  # fmt: skip
            page.wait_for_function("() => !document.querySelector('#actions button').disabled")
            return shown
        if shown["phase"] == "done":
            page.wait_for_selector("#done:not([hidden])")
            return shown
        time.sleep(0.1)
    raise AssertionError(f"still {shown['phase']} after {patience} seconds")


def press(page: Page, key: str) -> dict[str, Any]:
    """Press a key that changes the interview, and wait for what comes next."""
    turn = moment(page)["turn"]
    page.keyboard.press(key)
    page.wait_for_function("(turn) => fetch('view').then((r) => r.json()).then((now) => now.turn > turn)", arg=turn)
    return next_question(page)
