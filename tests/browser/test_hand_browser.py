"""A hand that errs, and one that paints: rules first, clicks that come too soon, what can be taken back, on a phone."""

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

from browsing import assert_accessible_and_fits, changed, moment, next_question, press, visited

from studies.serving import Server

PHONE: dict[str, Any] = {"viewport": {"width": 390, "height": 844}, "has_touch": True, "is_mobile": True}


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    started = Server("FrozenLake-v1", tmp_path)
    yield started
    started.stop(signal.SIGKILL)


def test_the_rules_come_first_and_can_be_tried_out(chrome: Browser, server: Server) -> None:
    with visited(chrome, server.url) as page:
        expect(page.locator(".rules")).to_contain_text("one time in three you go where you want, two times in three")
        expect(page.locator("#asking")).to_be_hidden()
        expect(page.locator("#try-words")).to_have_text("You start in row 1, column 1.")
        page.keyboard.press("ArrowDown")
        for _ in range(3):
            page.locator("#try-actions").get_by_role("button", name="down", exact=True).click()
        expect(page.locator("#try-words")).to_contain_text("You pressed down, and now: ")
        expect(page.locator("#try-scene img")).to_have_count(1)
        assert_accessible_and_fits(page)
        assert moment(page)["turn"] == 0, "nothing of it counts"
        page.locator("#begin").click()
        next_question(page)
        expect(page.locator("#rules")).to_be_hidden()
        press(page, "ArrowLeft")
        page.reload()
        next_question(page)
        expect(page.locator("#rules")).to_be_hidden()
        page.locator("#show-rules").click()
        expect(page.locator("#rules")).to_be_visible()
        page.locator("#begin").click()
        expect(page.locator("#asking")).to_be_visible()


@pytest.mark.parametrize("apart", [60, 150, 300])
def test_two_clicks_in_a_row_are_one_answer(chrome: Browser, server: Server, apart: int) -> None:
    with visited(chrome, server.url) as page:
        next_question(page)
        left = page.get_by_role("button", name="left", exact=True)
        left.evaluate("(button, apart) => { button.click(); setTimeout(() => button.click(), apart); }", apart)
        page.wait_for_timeout(1000)
        assert next_question(page)["progress"]["answers"] == 1
        expect(page.locator("#last-words")).to_have_text("You said left ✓")
        left.click()
        page.wait_for_timeout(700)
        assert next_question(page)["progress"]["answers"] == 2, "later it counts"


def test_what_was_said_is_in_sight_and_undo_says_what_it_takes_back(chrome: Browser, server: Server) -> None:
    with visited(chrome, server.url) as page:
        next_question(page)
        expect(page.locator("#last")).to_be_hidden()
        press(page, "ArrowLeft")
        expect(page.locator("#undo")).to_have_accessible_name("Undo “left” in row 1, column 1")
        page.locator("#list-answers").click()
        chosen = page.get_by_label("What you would do in row 1, column 1")
        expect(page.locator("#answers-table svg .ring")).to_have_count(1)
        changed(page, lambda: chosen.select_option("down"))
        page.keyboard.press("Escape")
        expect(page.locator("#last-words")).to_have_text("You changed it to down ✓")
        expect(page.locator("#undo")).to_have_accessible_name("Undo the change to “down” in row 1, column 1")


def test_the_same_is_painted_over_the_map(chrome: Browser, server: Server) -> None:
    with visited(chrome, server.url) as page:
        next_question(page)
        page.locator("#same summary").click()
        first, last = (paintable(page, name) for name in ("row 1, column 2", "row 1, column 4"))
        page.mouse.move(*first)
        page.mouse.down()
        page.mouse.move(*last, steps=12)
        page.mouse.up()
        expect(page.locator("#same-words")).to_have_text("Holds here and in 3 painted places.")
        colours = page.locator("#paint rect").evaluate_all("(all) => all.map((box) => getComputedStyle(box).fill)")
        assert len(set(colours)) >= 3, "what is painted is seen, beside what is not, and where one is"
        shown = changed(page, page.get_by_role("button", name="up", exact=True).click)
        assert (shown["progress"]["answers"], shown["progress"]["situations"]) == (1, 4)
        shown = press(page, "u")
        assert shown["progress"]["situations"] == 0


def paintable(page: Page, name: str) -> tuple[float, float]:
    page.locator("#paint").scroll_into_view_if_needed()
    box = page.locator("#paint rect", has_text=name).bounding_box()
    assert box is not None
    return box["x"] + box["width"] / 2, box["y"] + box["height"] / 2


def test_a_drag_over_the_picture_plays(chrome: Browser, server: Server) -> None:
    with visited(chrome, server.url) as page:
        next_question(page)
        changed(page, page.get_by_text("I play", exact=True).click)
        box = page.locator("#scene").bounding_box()
        assert box is not None
        x, y = box["x"] + 100, box["y"] + 100
        page.mouse.move(x, y)
        page.mouse.down()
        page.mouse.move(x + 5, y + 80, steps=4)
        page.mouse.up()
        expect(page.locator("#last-words")).to_have_text("You said down ✓")


def test_on_a_phone_picture_and_buttons_are_on_one_screen_and_finish_is_in_reach(
    chrome: Browser, server: Server
) -> None:
    with visited(chrome, server.url, **PHONE) as page:
        assert_accessible_and_fits(page)
        page.set_viewport_size({"width": 390, "height": 844})
        next_question(page)
        page.get_by_role("button", name="left", exact=True).tap()
        page.wait_for_timeout(500)
        next_question(page)
        expect(page.locator("kbd").first).to_be_hidden()
        expect(page.locator("#progress-line")).to_contain_text("1 answer.")
        bar = page.locator(".tools").bounding_box()
        assert bar is not None
        for shown in ("#scene img", "#undo", "#finish", "#actions .up", "#actions .down", "#skip"):
            box = page.locator(shown).bounding_box()
            assert box is not None, shown
            below = 844 if shown == "#finish" else bar["y"]
            assert box["y"] >= 0, f"{shown} can be seen without scrolling"
            assert box["y"] + box["height"] <= below, f"{shown} can be seen without scrolling"
        assert_accessible_and_fits(page)
