"""What is in the person's hands, in a real browser: sameness, their list of answers, the end, the accuracy, undo."""

from __future__ import annotations

import json
import re
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
    moment,
    next_question,
    press,
    reply,
    start_again,
    to_the_flag,
    visited,
)

from studies.serving import Server


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


def answer(page: Page, number: int) -> dict[str, Any]:
    """So many answers of somebody who wants the flag."""
    shown = next_question(page)
    for _ in range(number):
        shown = reply(page, shown, to_the_flag)
    return shown


def listed(page: Page) -> dict[str, str]:
    """What the list of answers says, by the names of the situations; the dialog is open afterwards."""
    if not page.locator("#answers-dialog").is_visible():
        page.locator("#list-answers").click()
    expect(page.locator("#answers-dialog")).to_be_visible()
    rows = page.locator("#answers-table tbody tr").all()
    found = {}
    for row in rows:
        name = row.locator("th .told span").evaluate("(words) => words.firstChild.textContent")
        found[name] = row.locator("select").evaluate("(one) => one.selectedOptions[0].textContent")
    return found


def test_the_same_everywhere_like_this_holds_where_the_page_says(page: Page) -> None:
    shown = next_question(page)
    assert shown["question"]["where"] == "Row 1, column 1"
    page.locator("#same summary").click()
    expect(page.locator("#same-words")).to_have_text("Holds here only.")
    page.locator("#features [data-feature=column]").select_option("anything")
    top = [place["name"] for place in shown["belief"]["states"] if re.match(r"row 1,", place["name"])]
    assert len(top) > 1
    words = page.locator("#same-words")
    expect(words).to_contain_text(f"Holds in {len(top)} situations known so far")
    assert_accessible_and_fits(page)
    page.set_viewport_size({"width": 1280, "height": 800})
    shown = changed(page, page.get_by_role("button", name="down", exact=True).click)
    assert (shown["progress"]["answers"], shown["progress"]["situations"]) == (1, len(top))
    expect(page.locator("#covers")).to_have_text(f"They say what you would do in {len(top)} situations.")
    assert listed(page) == dict.fromkeys(top, "down")
    expect(page.locator("#answers-table")).to_contain_text("the same: row 1")
    page.keyboard.press("Escape")
    # What was said before stays as it is, and the page says so.
    row, column = shown["question"]["where"].split(", ")
    assert row == "Row 2"
    page.locator("#same summary").click()
    page.locator("#features [data-feature=row]").select_option("2 or less")
    assert f"row 1, {column}" in top
    expect(words).to_contain_text("Holds in 1 situation known so far")
    expect(words).to_contain_text("1 you spoke about before stay as they are")


def test_sameness_is_taken_back_as_a_whole(page: Page) -> None:
    page.locator("#same summary").click()
    page.locator("#features [data-feature=column]").select_option("anything")
    expect(page.locator("#same-words")).to_contain_text("Holds in")
    shown = changed(page, page.get_by_role("button", name="up", exact=True).click)
    assert shown["progress"]["situations"] > 1
    shown = press(page, "u")
    assert (shown["progress"]["answers"], shown["progress"]["situations"]) == (0, 0)
    assert shown["question"]["where"] == "Row 1, column 1"
    expect(page.locator("#why")).to_contain_text("You took back what you said here.")


def test_finish_now_and_go_on(page: Page) -> None:
    before = answer(page, 4)
    shown = click(page, "#finish")
    assert shown["phase"] == "done"
    expect(page.locator("#lines")).to_contain_text("You gave 4 answers")
    expect(page.locator("#lines")).to_contain_text("You finished before more could be promised.")
    expect(page.locator("#final-promise")).not_to_have_class("promise")
    assert page.evaluate("document.activeElement.id") == "done-title", "who does not see it is told"
    assert_accessible_and_fits(page)
    shown = click(page, "#go-on")
    assert (shown["phase"], shown["question"]["where"]) == ("asking", before["question"]["where"])
    expect(page.locator("#answers")).to_have_text("4")
    click(page, "#finish")
    shown = click(page, "#final-undo")
    assert shown["progress"]["answers"] == 3, "an undo at the end takes an answer back, and asks again"
    assert shown["phase"] == "asking"


def test_an_answer_is_changed_in_the_list(page: Page) -> None:
    answer(page, 3)
    assert listed(page)["row 1, column 1"] == "left"
    assert_accessible_and_fits(page)
    page.set_viewport_size({"width": 1280, "height": 800})
    chosen = page.get_by_label("What you would do in row 1, column 1")
    shown = changed(page, lambda: chosen.select_option("down"))
    assert shown["progress"]["answers"] == 3
    row = page.locator("#answers-table tbody tr").filter(has=chosen)
    expect(row).to_contain_text("changed")
    page.keyboard.press("Escape")
    page.reload()
    next_question(page)
    assert listed(page)["row 1, column 1"] == "down"
    page.keyboard.press("Escape")
    click(page, "#finish")
    expect(page.locator("#does > div", has_text="row 1, column 1")).to_contain_text("down")


def test_the_list_keeps_what_holds_if_a_change_cannot_be_made(page: Page, server: Server) -> None:
    answer(page, 1)
    assert listed(page) == {"row 1, column 1": "left"}
    page.route("**/correct", lambda route: route.abort())
    page.get_by_label("What you would do in row 1, column 1").select_option("down")
    trouble = "your last step did not arrive"
    expect(page.locator("#trouble")).to_contain_text(trouble)
    for _ in range(2):
        page.wait_for_event("response", lambda response: "/view?" in response.url)
    expect(page.locator("#trouble")).to_contain_text(trouble)
    assert listed(page) == {"row 1, column 1": "left"}


def test_start_again_forgets_all_on_the_page_and_keeps_the_log(page: Page, server: Server) -> None:
    answer(page, 3)
    before = logged(server)
    page.locator("#again").click()
    assert_accessible_and_fits(page)
    page.set_viewport_size({"width": 1280, "height": 800})
    page.get_by_role("button", name="Keep my answers").click()
    assert moment(page)["progress"]["answers"] == 3
    shown = start_again(page)
    progress = shown["progress"]
    assert (progress["answers"], progress["situations"], progress["skipped"]) == (0, 0, 0)
    expect(page.locator("#answers")).to_have_text("0")
    expect(page.locator("#undo")).to_be_disabled()
    page.locator("#list-answers").click()
    expect(page.locator("#answers-none")).to_have_text("You have not answered anything yet.")
    page.keyboard.press("Escape")
    after = logged(server)
    assert after[: len(before)] == before, "the log keeps what was said"
    earlier, later = walked(after)[-2:]
    assert len(later) >= 6
    assert earlier[:6] != later[:6], "the chances are others"
    # Escape means no, also the second time.
    page.locator("#again").click()
    page.keyboard.press("Escape")
    expect(page.locator("#again-dialog")).to_be_hidden()
    answer(page, 1)
    page.locator("#again").click()
    page.keyboard.press("Escape")
    page.reload()
    assert next_question(page)["progress"]["answers"] == 1


def logged(server: Server) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (server.folder / "answers.jsonl").read_text().splitlines()]


def walked(events: list[dict[str, Any]]) -> list[list[list[int]]]:
    """What the agent walked each time the person began."""
    found: list[list[list[int]]] = [[]]
    for event in events:
        if event["event"] == "start again":
            found.append([])
        elif event["event"] == "walk":
            found[-1].append(event["path"])
    return found


def test_the_accuracy_is_changed_on_the_page(page: Page) -> None:
    before = answer(page, 2)
    page.locator("#set-aim").click()
    expect(page.locator("#epsilon")).to_have_value("10")
    expect(page.locator("#horizon")).to_have_value("100")
    page.locator("#epsilon").fill("150")
    page.keyboard.press("Enter")
    what = "How much worse than you it may do, in % of an episode"
    expect(page.locator("#aim-wrong")).to_have_text(f"{what}: a number from 0.1 to 99.")
    expect(page.locator("#epsilon")).to_have_value("150")
    expect(page.locator("#epsilon")).to_be_focused()
    page.locator("#epsilon").fill("10")
    page.locator("#horizon").fill("1000000000")
    page.keyboard.press("Enter")
    expect(page.locator("#aim-wrong")).to_have_text("Steps of an episode: a whole number from 1 to 606.")
    expect(page.locator("#trouble")).to_be_hidden()
    assert_accessible_and_fits(page)
    page.set_viewport_size({"width": 1280, "height": 800})
    send = """(body) => fetch("adjust", {
        method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(body),
    }).then((response) => response.status)"""
    for epsilon, horizon in ((0.1, 10**9), (1e-320, 40)):
        body = {"turn": before["turn"], "epsilon": epsilon, "delta": 0.1, "horizon": horizon}
        assert page.evaluate(send, body) == 422, "whoever sends it past the page"
    assert moment(page)["turn"] == before["turn"], "a wrong value changes nothing"
    page.locator("#epsilon").fill("90")
    page.locator("#horizon").fill("40")
    shown = changed(page, lambda: page.keyboard.press("Enter"))
    expect(page.locator("#aim-dialog")).to_be_hidden()
    assert shown["settings"] == {"epsilon": 0.9, "delta": 0.1, "horizon": 40}
    assert shown["progress"]["answers"] == 2, "answers stay"
    assert not shown["gauge"]["reached"], "what can be promised is found out anew"
    while shown["phase"] == "asking":
        shown = reply(page, shown, to_the_flag)
    promised = re.search(r"loses at most (\d+) %", page.locator("#final-promise").text_content() or "")
    assert promised is not None
    assert int(promised[1]) <= 90
    page.reload()
    next_question(page)
    page.locator("#set-aim").click()
    expect(page.locator("#epsilon")).to_have_value("90")
