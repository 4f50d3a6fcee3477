"""The interview as a person meets it: a real browser, a real server, key presses."""

from __future__ import annotations

import http.client
import json
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parents[1]))

from browsing import (
    assert_accessible,
    assert_accessible_and_fits,
    changed,
    kill_and_restart,
    moment,
    next_question,
    press,
    reply,
    to_the_upper_end,
    visited,
)
from interviews import UP, wants_the_end_of

from aceirl.runs.result import load
from studies.serving import Server

UPWARD = wants_the_end_of(UP)
KEYS = ("ArrowLeft", "ArrowUp", "ArrowRight", "ArrowDown")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """One interview for all tests that do not have to see its end; its corridors are long."""
    size = ("--set", "arm_length=40", "--set", "horizon=90")
    started = Server("four-paths", tmp_path_factory.mktemp("shared"), *size)
    yield started
    started.stop(signal.SIGKILL)


@pytest.fixture
def page(chrome: Browser, server: Server) -> Iterator[Page]:
    with opened(chrome, server) as shown:
        yield shown


@contextmanager
def opened(chrome: Browser, server: Server, **options: Any) -> Iterator[Page]:
    with visited(chrome, server.url, **options) as page:
        next_question(page)
        yield page


def test_a_whole_interview_by_keys_with_a_reload_and_a_killed_server(chrome: Browser, tmp_path: Path) -> None:
    server = Server("four-paths", tmp_path)
    try:
        with opened(chrome, server) as page:
            shown, answers = answer_to_the_end(page, server)
            assert answers >= 12
            assert shown["progress"]["answers"] == answers
            expect(page.locator("#final-promise")).to_contain_text("loses at most 10 %")
            check_the_result(server.folder, shown)
            check_the_last_screen(page)
    finally:
        server.stop(signal.SIGKILL)


def answer_to_the_end(page: Page, server: Server) -> tuple[dict[str, Any], int]:
    answers = 0
    while (shown := next_question(page))["phase"] == "asking":
        shown = reply(page, shown, to_the_upper_end)
        answers += 1
        if answers == 4:
            page.reload()
            assert next_question(page)["turn"] == shown["turn"]
        if answers == 8:
            kill_and_restart(page, server)
            after = next_question(page)
            assert (after["turn"], after["question"]) == (shown["turn"], shown["question"])
    return shown, answers


def check_the_result(folder: Path, shown: dict[str, Any]) -> None:
    result = json.loads((folder / "result.json").read_text())
    assert result["certified"]
    asked = [state["state"] for state in shown["belief"]["states"] if "said" in state]
    assert 20 in asked, "the end of the upper corridor"
    policy = load(folder).policy
    for state in asked:
        assert (policy[:, state] == UPWARD(state)).all()


def check_the_last_screen(page: Page) -> None:
    expect(page.locator("#wish")).to_have_text("I cannot tell yet what you want.")
    expect(page.locator("#does")).to_contain_text("upeverywhere")
    film = page.locator("#film")
    expect(film.locator(".film-words")).to_have_text("Step 0. The middle")
    film.locator(".seek").focus()
    page.keyboard.press("End")
    expect(film.locator(".film-words")).to_contain_text("upper corridor")
    with page.expect_download() as download:
        page.get_by_role("link", name="Download everything").click()
    assert download.value.suggested_filename == "interview.zip"
    assert_accessible_and_fits(page)


@pytest.mark.skipif(sys.platform != "linux", reason="only there can the limits of another process be changed")
def test_a_write_that_fails_is_shown_until_one_works(page: Page, server: Server) -> None:
    import resource

    before = moment(page)["progress"]["answers"]
    size = (server.folder / "answers.jsonl").stat().st_size
    limits = resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE)
    resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE, (size, limits[1]))
    try:
        page.keyboard.press("ArrowUp")
        expect(page.locator("#trouble")).to_contain_text("cannot write")
        with page.expect_response("**/view?have=*"), page.expect_response("**/view?have=*"):
            page.wait_for_timeout(2500)
        expect(page.locator("#trouble")).to_contain_text("cannot write")
        expect(page.locator("#answers")).to_have_text(str(before))
        page.reload()
        expect(page.locator("#trouble")).to_contain_text("cannot write")
    finally:
        resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE, limits)
    next_question(page)
    press(page, "ArrowUp")
    expect(page.locator("#trouble")).to_be_hidden()
    expect(page.locator("#answers")).to_have_text(str(before + 1))


def test_a_folder_that_is_gone_is_said_nothing_is_lost_and_put_back_it_goes_on(page: Page, server: Server) -> None:
    before = next_question(page)["progress"]["answers"]
    aside = server.folder.with_name("aside")
    server.folder.rename(aside)
    try:
        page.keyboard.press("ArrowUp")
        expect(page.locator("#trouble")).to_contain_text("was deleted or moved")
        page.keyboard.press("u")
        expect(page.locator("#answers")).to_have_text(str(before))
        assert page.evaluate("fetch('everything.zip').then((response) => response.status)") == 200
    finally:
        aside.rename(server.folder)
    next_question(page)
    press(page, "ArrowUp")
    expect(page.locator("#trouble")).to_be_hidden()
    expect(page.locator("#answers")).to_have_text(str(before + 1))


def test_a_wrong_address_is_a_page_to_read(chrome: Browser, server: Server) -> None:
    with visited(chrome, server.url.rstrip("/")[:-4] + "xxxx/") as page:
        expect(page.locator("h1")).to_have_text("This address does not work")
        assert_accessible_and_fits(page)


def test_the_address_without_its_last_slash_works(page: Page, server: Server) -> None:
    page.goto(server.url.rstrip("/"))
    before = next_question(page)["progress"]["answers"]
    press(page, "ArrowUp")
    expect(page.locator("#answers")).to_have_text(str(before + 1))
    assert page.url == server.url


def test_nothing_is_promised_until_contradictions_are_put_right(chrome: Browser, tmp_path: Path) -> None:
    server = Server("four-paths", tmp_path, "--epsilon", "0.5")
    try:
        with opened(chrome, server) as page:
            while (shown := next_question(page))["phase"] == "asking":
                if "on purpose" in shown["question"]["why"]:
                    press(page, KEYS[(UPWARD(shown["question"]["state"]) + 1) % 4])
                else:
                    reply(page, shown, to_the_upper_end)
            promise = page.locator("#final-promise")
            expect(promise).to_contain_text("Nothing is promised")
            expect(promise).not_to_have_class("promise")
            while shown["phase"] == "asking" or shown["contradictions"]:
                if shown["phase"] == "asking":
                    shown = reply(page, shown, to_the_upper_end)
                    continue
                meant = to_the_upper_end(shown["contradictions"][0]["name"])
                row = page.locator("#contradiction-list li").first
                shown = changed(page, row.get_by_role("button", name=meant, exact=True).click)
            expect(promise).to_contain_text("Promised, with 90 % confidence")
    finally:
        server.stop(signal.SIGKILL)


def test_two_tabs_show_one_interview_and_count_one_answer(page: Page, server: Server) -> None:
    other = page.context.new_page()
    other.goto(server.url)
    first = next_question(other)
    # Both tabs press at once: the requests are sent before either answer is back.
    codes = page.evaluate(
        """(body) => Promise.all([0, 1].map(() => fetch("answer", {
             method: "POST", headers: { "content-type": "application/json" }, body,
           }).then((response) => response.status)))""",
        json.dumps({"turn": first["turn"], "action": UP}),
    )
    assert sorted(codes) == [200, 409]
    before = first["progress"]["answers"]
    assert moment(page)["progress"]["answers"] == before + 1
    next_question(page)
    press(page, "ArrowUp")
    expect(other.locator("#answers")).to_have_text(str(before + 2))
    assert other.locator("#where").text_content() == page.locator("#where").text_content()


def test_undo_and_not_knowing(page: Page) -> None:
    first = press(page, "ArrowUp")
    press(page, "ArrowDown")
    again = press(page, "u")
    assert again["question"]["state"] == first["question"]["state"]
    assert again["progress"]["answers"] == first["progress"]["answers"]
    press(page, "?")
    expect(page.locator("#alone")).to_contain_text("did not know")
    expect(page.locator("#answers")).to_have_text(str(first["progress"]["answers"]))
    press(page, "u")


def test_the_replay_shows_the_episode_and_comes_back(page: Page) -> None:
    shown = press(page, "ArrowUp")
    page.keyboard.press("r")
    expect(page.locator("#caption")).to_contain_text(f" of {len(shown['question']['path'])}: ")
    expect(page.locator("#caption")).to_have_text("", timeout=60_000)


def test_everything_can_be_reached_and_pressed_by_keyboard_alone(page: Page) -> None:
    page.locator("#shortcuts").uncheck()
    before = moment(page)
    page.keyboard.press("ArrowUp")
    page.locator("body").focus()
    reached = []
    for _ in range(24):
        page.keyboard.press("Tab")
        reached.append(page.evaluate("document.activeElement.id || document.activeElement.textContent"))
    answers = ["left←", "up↑", "right→", "down↓"]
    assert [name for name in reached if name in answers][:4] == answers
    assert {"skip", "replay", "shortcuts", "list-answers", "set-aim", "again", "finish"} <= set(reached)
    assert [name for name in reached if name.strip() in ("The same everywhere like this", "People")]
    assert moment(page)["turn"] == before["turn"], "single keys are switched off"
    page.get_by_role("button", name="up", exact=True).focus()
    page.keyboard.press("Enter")
    expect(page.locator("#answers")).to_have_text(str(before["progress"]["answers"] + 1))
    expect(page.locator("#announce")).to_contain_text("What would you do?")
    assert page.evaluate("document.activeElement.textContent") == "up↑", "the focus stays where it was"


def test_strangers_are_refused(page: Page, server: Server) -> None:
    turn = moment(page)["turn"]
    wrong = page.context.new_page()
    answer = wrong.goto(f"http://127.0.0.1:{server.port}/{'x' * 32}/")
    assert answer is not None
    assert answer.status == 403
    path = server.url.split(str(server.port))[1]

    def status(method: str, route: str, headers: dict[str, str], body: str | None = None) -> int:
        connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=10)
        connection.request(method, path + route, body, headers)
        code = connection.getresponse().status
        connection.close()
        return code

    own = {"Host": f"127.0.0.1:{server.port}", "Content-Type": "application/json"}
    small = json.dumps({"turn": turn, "action": 1})
    assert status("GET", "", {"Host": f"evil.example:{server.port}"}) == 421
    assert status("POST", "answer", own | {"Host": f"evil.example:{server.port}"}, small) == 421
    assert status("POST", "answer", own | {"Origin": "http://evil.example"}, small) == 403
    assert status("POST", "answer", own, json.dumps({"turn": turn, "action": 1, "more": "x" * 5000})) == 413
    assert status("GET", f"answer?turn={turn}&action=1", own) == 405
    assert moment(page)["turn"] == turn
    assert status("POST", "answer", own, small) == 200


@pytest.mark.parametrize("width", [1280, 390])
def test_the_page_is_accessible_and_fits(chrome: Browser, server: Server, width: int) -> None:
    with opened(chrome, server, viewport={"width": width, "height": 844}) as page:
        assert_accessible(page)
        press(page, "ArrowUp")
        page.wait_for_function("() => document.querySelector('#belief .w8')")
        assert_accessible(page)
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        down = page.get_by_role("button", name="down", exact=True).bounding_box()
        assert down is not None
        assert down["y"] + down["height"] <= 844, "all answers can be pressed without scrolling"
