"""Somebody drives CartPole in a real browser: by keys, asked, taking over, after a kill, to a run that is kept."""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect
from playwright.sync_api import TimeoutError as Late

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parents[1]))

from browsing import assert_accessible_and_fits, kill_and_restart, moment, visited

import aceirl
from studies.serving import Server


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    started = Server("CartPole-v1", tmp_path, "--horizon", "40")
    yield started
    started.stop(signal.SIGKILL)


def balance(page: Page) -> str:
    """The key of somebody who keeps the pole upright, by the numbers that the page shows."""
    place, speed, angle, turning = (float(text) for text in page.locator("#numbers dd").all_text_contents())
    return "ArrowRight" if angle + 0.25 * turning + 0.05 * place + 0.1 * speed > 0 else "ArrowLeft"


def settled(page: Page, phase: str) -> None:
    """Wait for a moment at which presses count."""
    page.wait_for_selector(f'body[data-phase="{phase}"][data-settled]', timeout=60_000)


def step(page: Page, key: str | None = None) -> dict[str, Any]:
    """Press one key, and wait until it was taken in; once more if another question came just before: what is pressed so
    soon does not count."""
    turn = page.get_attribute("body", "data-turn")
    taken_in = "(turn) => document.body.dataset.turn !== turn"
    page.keyboard.press(key or balance(page))
    try:
        page.wait_for_function(taken_in, arg=turn, timeout=10_000)
    except Late:
        page.wait_for_selector("body[data-settled]")
        page.keyboard.press(key or balance(page))
        page.wait_for_function(taken_in, arg=turn)
    return moment(page)


def choose(page: Page, way: str, phase: str) -> None:
    page.locator("#modes").get_by_text(way).click()
    settled(page, phase)


def seek(page: Page, share: float) -> None:
    """Move the film to a share of its length."""
    page.wait_for_function("() => document.querySelector('#stage .seek').max > 2", timeout=60_000)
    page.locator("#stage .seek").evaluate(
        "(seek, share) => { seek.value = Math.floor(seek.max * share); seek.dispatchEvent(new Event('input')); }", share
    )


def assert_on_one_screen(page: Page) -> None:
    """On a phone the picture and the buttons are seen at once."""
    page.set_viewport_size({"width": 390, "height": 844})
    for part in ("#scene img", "#actions"):
        box = page.locator(part).bounding_box()
        assert box is not None
        assert box["y"] >= 0
        assert box["y"] + box["height"] <= 844 - 60, f"{part} is not on the screen"
    page.set_viewport_size({"width": 1280, "height": 800})


def test_somebody_drives_is_asked_takes_over_and_keeps_a_run(chrome: Browser, server: Server) -> None:
    with visited(chrome, server.url) as page:
        assert_accessible_and_fits(page)
        page.locator("#begin").click()
        settled(page, "driving")
        for taken in range(1, 9):
            assert step(page)["step"] == taken, "a tap is one step"
        page.keyboard.press("u")
        expect(page.locator("#answers")).to_have_text("7")
        assert_on_one_screen(page)

        page.locator("#pace").fill("25")
        page.locator("#question").focus()
        page.keyboard.down("ArrowLeft")
        page.wait_for_function("() => Number(document.getElementById('answers').textContent) >= 10")
        page.keyboard.up("ArrowLeft")
        page.wait_for_timeout(300)
        held = moment(page)["answers"]
        page.wait_for_timeout(300)
        assert moment(page)["answers"] == held, "time stands still when no key is held"

        choose(page, "Ask me", "asked")
        kill_and_restart(page, server)
        before = moment(page)
        assert before["answers"] == held
        while moment(page)["answers"] < 32:
            settled(page, "asked")
            step(page)
        settled(page, "asked")
        page.wait_for_function("() => document.querySelector('#stage .seek').max > 0")
        assert_accessible_and_fits(page)

        choose(page, "I take over", "watching")
        seek(page, 0.5)
        at = int(page.locator("#stage .film-words").text_content().split()[1].strip(":"))  # type: ignore[union-attr]
        page.keyboard.press("ArrowRight")
        page.wait_for_selector('body[data-phase="driving"]')
        expect(page.locator("#answers")).to_have_text("33")
        assert moment(page)["step"] == at + 1, "the key that takes over is the first answer"
        page.keyboard.press("g")
        settled(page, "watching")
        expect(page.locator("#where")).to_have_text("It drives")

        choose(page, "Test drive", "driving")
        expect(page.locator("#where")).to_have_text("Test drive 1 of 51")
        while step(page)["phase"] == "driving":
            expect(page.locator("#undo")).to_be_hidden()
        expect(page.locator("#tests")).to_have_text("1 of 51 test drives for a promise.")

        page.locator("#finish").click()
        settled(page, "done")
        expect(page.locator("#final-promise")).to_contain_text("No promise: it takes 51 test drives, and you made 1.")
        expect(page.locator("#does-rules li").first).to_contain_text("Push ")
        page.wait_for_function("() => document.querySelector('#film .seek').max > 0", timeout=60_000)
        assert_accessible_and_fits(page)
    result: Any = aceirl.load(server.folder)
    assert (result.answers, result.person, result.certificate) == (33, True, None)
    assert result.predict([0.0, 0.0, 0.15, 1.0])[0] == 1
