"""Playing, comparing, and episodes that the agent shows, in a real browser by keys; a killed server asks the same."""

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

from browsing import (
    assert_accessible_and_fits,
    changed,
    click,
    next_question,
    press,
    reply,
    start_again,
    to_the_flag,
    visited,
)

from studies.serving import Server

OPEN = "I cannot tell yet what you want"
"""A few answers or comparisons are too few for a sentence."""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    started = Server("FrozenLake-v1", tmp_path_factory.mktemp("shared"))
    yield started
    started.stop(signal.SIGKILL)


@pytest.fixture
def page(chrome: Browser, server: Server) -> Iterator[Page]:
    """An interview in which nothing has been said yet."""
    with visited(chrome, server.url) as shown:
        if next_question(shown)["turn"]:
            start_again(shown)
        yield shown


def choose(page: Page, label: str) -> dict[str, Any]:
    """Be interviewed in another way."""
    return changed(page, page.get_by_text(label, exact=True).click)


def better(page: Page, shown: dict[str, Any]) -> str:
    """The key of who wants the flag, for the two episodes that are shown."""
    ends = []
    for side in page.locator("#pair > section").all():
        expect(side.locator(".seek")).not_to_have_attribute("max", "0")
        side.locator(".seek").focus()
        page.keyboard.press("End")
        ends.append("the flag" in (side.locator(".film-words").text_content() or ""))
    page.locator("#question").focus()
    return "=" if ends[0] == ends[1] else "ArrowLeft" if ends[0] else "ArrowRight"


def test_a_whole_episode_is_played_by_arrow_keys(page: Page) -> None:
    choose(page, "I play")
    shown = next_question(page)
    first, moves = shown["question"]["episode"], 0
    while shown["question"]["episode"] == first:
        assert shown["question"]["step"] == moves
        expect(page.locator("#why")).to_have_text(f"You play: step {moves + 1} of 100.")
        shown = reply(page, shown, to_the_flag)
        moves += 1
        assert shown["progress"]["answers"] == moves, "every move is an answer"
    expect(page.locator("#answers")).to_have_text(str(moves))
    again = press(page, "u")
    assert again["progress"]["answers"] == moves - 1
    assert again["question"]["kind"] == "situation"
    reply(page, again, to_the_flag)
    click(page, "#finish")
    expect(page.locator("#wish")).to_contain_text(OPEN)


def test_comparisons_alone_make_an_interview(page: Page) -> None:
    shown = choose(page, "I compare")
    assert shown["question"]["kind"] == "pair"
    assert_accessible_and_fits(page)
    right = page.locator("#right-better").bounding_box()
    assert right is not None
    assert right["y"] + right["height"] <= 844, "on a phone one can choose without scrolling"
    page.set_viewport_size({"width": 1280, "height": 800})
    said: list[str] = []
    while shown["phase"] == "asking" and len([key for key in said if key != "="]) < 5:
        said.append(better(page, shown))
        shown = press(page, said[-1])
        assert shown["progress"]["answers"] == len(said)
    again = press(page, "u")
    assert again["question"]["kind"] == "pair"
    assert again["progress"]["answers"] == len(said) - 1
    assert better(page, again) == said[-1], "the same two are there again"
    press(page, said[-1])
    click(page, "#finish")
    expect(page.locator("#wish")).to_contain_text(OPEN)
    expect(page.locator("#lines")).to_contain_text(f"You gave {len(said)} answers")
    expect(page.locator("#explained-words")).to_have_text("You did not say of any situation what you would do.")
    page.locator("#list-answers").click()
    expect(page.locator("#answers-none")).to_contain_text("You compared episodes")


def test_arrows_answer_after_the_mode_was_chosen_with_the_pointer(page: Page) -> None:
    choose(page, "I play")
    shown = press(page, "ArrowLeft")
    assert (shown["mode"], shown["progress"]["answers"]) == ("play", 1)
    page.locator("input[name=mode]:checked").focus()
    shown = press(page, "ArrowLeft")
    assert (shown["mode"], shown["progress"]["answers"]) == ("ask", 1), "on the choice they choose"
