"""The set-up page in a real browser: chosen, explained where it is wrong, and started, by keyboard."""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parents[1]))

from browsing import assert_accessible_and_fits, next_question, press
from browsing import visited as person

from studies.serving import Server


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    started = Server(None, tmp_path / "runs" / "mine")
    yield started
    started.stop(signal.SIGKILL)


def test_an_interview_is_set_up_by_keyboard(chrome: Browser, server: Server) -> None:
    with person(chrome, server.url) as page:
        choose(page, "Blackjack-v1")
        expect(page.locator(".preview img")).to_have_count(5, timeout=30_000)
        assert_accessible_and_fits(page)
        page.locator("#advanced > summary").click()
        expect(page.locator("#horizon-hint")).to_have_text("Its own limit is 12. Another number takes its place.")
        assert_accessible_and_fits(page)
        page.locator("#epsilon").fill("0.3")
        page.locator("#delta").fill("often")
        page.locator("#name").fill("Olga")
        page.keyboard.press("Enter")
        expect(page.locator("#delta-wrong")).to_have_text("'often' is not a number.")
        expect(page.locator("#delta")).to_be_focused()
        page.keyboard.press("Control+a")
        page.keyboard.type("0.2")
        page.locator("#horizon").fill("8")
        values = {"name": "Olga", "epsilon": "0.3", "delta": "0.2", "horizon": "8", "seed": "0"}
        for field, value in values.items():
            expect(page.locator(f"#{field}")).to_have_value(value)
        page.keyboard.press("Enter")
        page.wait_for_selector("#actions button", state="attached")
        assert page.url == server.url, "the same address now shows the interview"
        next_question(page)
        press(page, "s")
        page.reload()
        assert next_question(page)["progress"]["answers"] == 1
        page.goto(f"{server.url}people")
        expect(page.locator("#people-list li")).to_contain_text("Olga")
    assert (server.folder / "answers.jsonl").exists()


def choose(page: Page, name: str) -> None:
    """Move among the environments with the arrow keys until one is chosen."""
    page.locator("input[type=radio]:checked").focus()
    for _ in range(30):
        if page.locator("input[type=radio]:checked").get_attribute("value") == name:
            return
        page.keyboard.press("ArrowDown")
    raise AssertionError(f"{name} cannot be reached")


def test_any_other_environment_can_be_typed(chrome: Browser, server: Server) -> None:
    with person(chrome, server.url) as page:
        expect(page.locator("#horizon-hint")).to_contain_text("Its own limit is 100")
        expect(page.locator("#parameters-hint")).to_contain_text("is_slippery=true")
        page.locator("#advanced > summary").click()
        typed = page.locator("#environment")
        typed.fill("FrozenLake-v9")
        typed.press("Tab")
        expect(page.locator("#environment-wrong")).to_contain_text("cannot be made")
        expect(typed).to_have_value("FrozenLake-v9")
        typed.fill("gridworld")
        typed.press("Tab")
        expect(page.locator("#environment-wrong")).to_be_hidden()
        expect(page.locator("#horizon")).to_be_disabled()
        page.locator("#parameters").fill("horizon=4\nsise=3")
        page.locator("#start").click()
        expect(page.locator("#parameters-wrong")).to_contain_text("did you mean 'size'?")
        page.locator("#parameters").fill("horizon=4")
        page.locator("#start").click()
        assert next_question_when_there(page)["question"]["step"] < 4


def next_question_when_there(page: Page) -> dict[str, Any]:
    page.wait_for_selector("#actions button", state="attached")
    return next_question(page)


def test_a_folder_with_another_interview_is_left_alone_and_another_name_taken(
    chrome: Browser, server: Server, tmp_path: Path
) -> None:
    with person(chrome, server.url) as page:
        choose(page, "four-paths")
        page.locator("#start").click()
        next_question_when_there(page)
        press(page, "ArrowUp")
    server.stop(signal.SIGKILL)
    again = Server(None, server.folder)
    try:
        with person(chrome, again.url) as page:
            assert page.locator("input[type=radio]:checked").get_attribute("value") == "four-paths"
            page.locator("#advanced > summary").click()
            page.locator("#seed").fill("1")
            page.locator("#start").click()
            expect(page.locator("#folder-wrong")).to_contain_text("other settings")
            expect(page.locator("#folder")).to_be_focused()
            page.keyboard.type("other")
            page.keyboard.press("Enter")
            next_question_when_there(page)
        assert (tmp_path / "runs" / "other" / "answers.jsonl").exists()
    finally:
        again.stop(signal.SIGKILL)
