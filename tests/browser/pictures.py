"""The pictures of the interview in the documentation: `PYTHONPATH=. python tests/browser/pictures.py docs/images`."""

from __future__ import annotations

import signal
import sys
import tempfile
from pathlib import Path
from typing import Literal

from browsing import browser, next_question, press
from playwright.sync_api import Browser

from studies.serving import Server

# Someone who likes the right-hand way around the holes of FrozenLake.
ACTIONS = {"1,1": "Down", "2,1": "Down", "3,1": "Right", "3,2": "Down", "4,2": "Right", "4,3": "Right", "3,3": "Down"}
HALF_WAY = 6


def take(chrome: Browser, url: str, name: str, folder: Path) -> None:
    """One moment at both widths, light and dark."""
    for width, height in ((1280, 800), (390, 844)):
        schemes: tuple[Literal["light", "dark"], ...] = ("light", "dark")
        for scheme in schemes:
            context = chrome.new_context(
                viewport={"width": width, "height": height},
                color_scheme=scheme,
                reduced_motion="reduce",
            )
            page = context.new_page()
            page.goto(url)
            shown = next_question(page)
            if shown["progress"]["answers"]:
                page.wait_for_selector("#belief .w8, #final-belief .w8", state="attached")
            page.wait_for_timeout(600)
            page.screenshot(path=str(folder / f"interview-{name}-{width}-{scheme}.png"), full_page=True)
            context.close()


def main(folder: Path) -> None:
    """First question, half-way, last screen."""
    with tempfile.TemporaryDirectory() as run, browser() as chrome:
        server = Server("FrozenLake-v1", Path(run))
        page = chrome.new_page()
        page.goto(server.url)
        shown = next_question(page)
        take(chrome, server.url, "first", folder)
        answers = 0
        while shown["phase"] == "asking":
            row, column = (part.split()[-1] for part in shown["question"]["where"].split(", "))
            shown = press(page, f"Arrow{ACTIONS.get(f'{row},{column}', 'Left')}")
            answers += 1
            if answers == HALF_WAY:
                take(chrome, server.url, "half-way", folder)
        take(chrome, server.url, "last", folder)
        server.stop(signal.SIGKILL)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
