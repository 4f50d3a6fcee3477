"""Episodes that the agent walked on its guesses, in a real browser; and a killed server, whatever it was asking."""

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
    inferred,
    kill_and_restart,
    next_question,
    press,
    reply,
    start_again,
    visited,
)

from studies.serving import Server

# In a room in which moves fail so often that much is met of which the person has not spoken.
ROOM = ("--set", "size=5", "--seed", "1")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    started = Server("gridworld", tmp_path_factory.mktemp("shared"), *ROOM)
    yield started
    started.stop(signal.SIGKILL)


@pytest.fixture
def page(chrome: Browser, server: Server) -> Iterator[Page]:
    with visited(chrome, server.url) as shown:
        yield shown


def to_the_corner(name: str) -> str:
    """What somebody does in the room who wants to be in its upper right corner."""
    column = int(name.split()[1].split(",", maxsplit=1)[0])
    return "right" if column < 5 else "up"


def next_episode(page: Page) -> dict[str, Any]:
    """Answer until an episode is shown; from the beginning if it came to an end without one."""
    for _ in range(120):
        shown = inferred(page)
        if shown["phase"] == "done":
            start_again(page)
        elif shown["question"]["kind"] == "episode":
            return shown
        else:
            reply(page, shown, to_the_corner)
    raise AssertionError("no episode was shown")


def answers(page: Page) -> dict[str, int]:
    """The actions by the situations' names, as the list has them."""
    rows = page.evaluate("fetch('answers').then((response) => response.json())")["answers"]
    return {row["name"]: row["action"] for row in rows}


def test_an_episode_is_shown_and_approved(page: Page) -> None:
    shown = next_episode(page)
    steps, before = shown["question"]["steps"], answers(page)
    assert not {step["name"] for step in steps} & set(before), "only what was not spoken about is a guess"
    guesses = page.locator("#guesses > li > button")
    expect(guesses).to_have_text([f"{step['words']} in {step['name']}" for step in steps])
    expect(page.locator("#actions")).to_be_hidden()
    film = page.locator("#episode")
    expect(page.locator("#where")).to_contain_text("Would you do the same?")
    expect(page.locator("#approve")).to_be_disabled()
    expect(page.locator("#approve-hint")).to_have_text("First watch it to its end.")
    page.keyboard.press("y")
    page.wait_for_function("() => document.querySelector('#episode .seek').max > 0")
    film.locator(".seek").focus()
    page.keyboard.press("End")
    expect(film.locator(".film-words")).to_contain_text("Step 10.")
    expect(page.locator("#approve")).to_be_enabled()
    guesses.first.click()
    expect(film.locator(".film-words")).to_contain_text(f"Step {steps[0]['step']}.")
    assert_accessible_and_fits(page)
    page.set_viewport_size({"width": 1280, "height": 800})
    page.locator("#question").focus()
    after = press(page, "y")
    assert after["progress"]["answers"] == shown["progress"]["answers"] + 1, "one answer for all of it"
    assert answers(page) == before | {step["name"]: step["action"] for step in steps}


def test_an_episode_is_objected_to_at_a_step_and_that_is_taken_back(page: Page) -> None:
    shown = next_episode(page)
    steps, before = shown["question"]["steps"], answers(page)
    last, line = steps[-1], page.locator("#guesses > li").last
    line.locator(".guess").focus()
    page.keyboard.press("Enter")
    other = line.locator(".choices button:not(:disabled)").first
    meant = ("left", "up", "right", "down").index(other.text_content() or "")
    assert meant != last["action"]
    other.focus()
    changed(page, lambda: page.keyboard.press("Enter"))
    approved = {step["name"]: step["action"] for step in steps[:-1]}
    assert answers(page) == before | approved | {last["name"]: meant}
    again = press(page, "u")
    assert (again["question"]["kind"], again["question"]["steps"]) == ("episode", steps)
    assert answers(page) == before
    press(page, "?")
    assert answers(page) == before, "who does not know has said nothing"


def test_a_killed_server_asks_the_same_again_whatever_it_was(page: Page, server: Server) -> None:
    if next_question(page)["turn"]:
        start_again(page)
    situation = reply(page, next_question(page), to_the_corner)
    check_killed(page, server, situation, "situation")
    reopened = press(page, "u")
    check_killed(page, server, reopened, "situation")
    expect(page.locator("#why")).to_contain_text("You took back what you said here.")
    reply(page, reopened, to_the_corner)
    check_killed(page, server, next_episode(page), "episode")
    pair = changed(page, page.get_by_text("I compare", exact=True).click)
    check_killed(page, server, pair, "pair")


def check_killed(page: Page, server: Server, before: dict[str, Any], kind: str) -> None:
    """After `kill -9` and the same command, the page asks the same question by itself."""
    assert before["question"]["kind"] == kind
    kill_and_restart(page, server)
    after = next_question(page)
    assert (after["turn"], after["progress"]["answers"]) == (before["turn"], before["progress"]["answers"])
    assert after["question"] == before["question"]
    expect(page.locator("#where")).to_contain_text(before["question"]["where"])
