"""Two people in two browsers, through a mapped port: the invitation, their own questions, where they differ."""

from __future__ import annotations

import re
import signal
import socket
import sys
import threading
from contextlib import suppress
from pathlib import Path

from playwright.sync_api import Browser, Page, expect

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parents[1]))

from browsing import assert_accessible_and_fits, next_question, press
from browsing import visited as person
from interviews import DOWN, UP, wants_the_end_of
from replies import reply

from studies.serving import Server

KEYS = ("ArrowLeft", "ArrowUp", "ArrowRight", "ArrowDown")


class MappedPort:
    """A port that passes everything on to another, as a tunnel or a container does."""

    def __init__(self) -> None:
        listening = socket.create_server(("127.0.0.1", 0))
        self.port: int = listening.getsockname()[1]
        self.target: int | None = None
        self._sockets, self._threads = [listening], [threading.Thread(target=self._accept, args=(listening,))]
        self._threads[0].start()

    def _accept(self, listening: socket.socket) -> None:
        with suppress(OSError):  # it was closed
            while True:
                outside, _ = listening.accept()
                self._sockets.append(outside)
                assert self.target is not None
                inside = socket.create_connection(("127.0.0.1", self.target))
                self._sockets.append(inside)
                for ends in ((outside, inside), (inside, outside)):
                    self._threads.append(threading.Thread(target=self._pass_on, args=ends))
                    self._threads[-1].start()

    @staticmethod
    def _pass_on(source: socket.socket, sink: socket.socket) -> None:
        with suppress(OSError):
            while content := source.recv(65536):
                sink.sendall(content)
        with suppress(OSError):
            sink.shutdown(socket.SHUT_WR)

    def close(self) -> None:
        for one in self._sockets:
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join()
        for one in self._sockets:
            one.close()


def answer_all(page: Page, arm: int) -> None:
    """Situations by key; the other questions have tests of their own."""
    wants = wants_the_end_of(arm)
    while (shown := next_question(page))["phase"] == "asking":
        name, body = reply(shown, wants)
        if name == "answer":
            press(page, KEYS[body["action"]])
            continue
        code = page.evaluate(
            """([name, body]) => fetch(name, {
                 method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(body),
               }).then((response) => response.status)""",
            [name, body],
        )
        assert code == 200


def test_two_people_through_a_mapped_port(chrome: Browser, tmp_path: Path) -> None:
    mapped = MappedPort()
    server = Server("four-paths", tmp_path, "--url", f"http://localhost:{mapped.port}", "--name", "Olga")
    try:
        assert server.url.startswith(f"http://localhost:{mapped.port}/")
        mapped.target = listened_port(server)
        with person(chrome, server.url) as olga, person(chrome, f"{server.url}people") as overview:
            next_question(olga)
            expect(overview.locator("#words")).to_have_text("You are the only one here so far.")
            link = overview.locator(".invitation").input_value()
            assert re.fullmatch(rf"http://localhost:{mapped.port}/[\w-]{{32}}/", link)
            expect(overview.locator("#note")).to_be_hidden()
            with person(chrome, link) as anna:
                check_joining(anna, link)
                check_differing(olga, overview, anna)
    finally:
        server.stop(signal.SIGKILL)
        mapped.close()


def test_a_guest_whose_log_is_spoiled_is_named_and_stops_nobody(chrome: Browser, tmp_path: Path) -> None:
    server = Server("four-paths", tmp_path, "--name", "Olga")
    try:
        with person(chrome, f"{server.url}people") as overview:
            link = overview.locator(".invitation").input_value()
        with person(chrome, link) as anna:
            anna.locator("#name").fill("Anna")
            anna.keyboard.press("Enter")
            anna.wait_for_url(lambda url: url != link)
            next_question(anna)
            press(anna, "ArrowUp")
        server.stop(signal.SIGKILL)
        log = tmp_path / "people" / "anna" / "answers.jsonl"
        log.write_bytes(b"spoiled\n" + log.read_bytes())
        server.restart()
        with person(chrome, f"{server.url}people") as overview:
            expect(overview.locator("#broken")).to_contain_text("Anna could not be opened and is left out")
            assert_accessible_and_fits(overview)
        with person(chrome, server.url) as olga:
            next_question(olga)
            assert press(olga, "ArrowUp")["progress"]["answers"] == 1
    finally:
        server.stop(signal.SIGKILL)


def listened_port(server: Server) -> int:
    """The port behind the mapped one, as the command says it."""
    assert server.process.stdout is not None
    for line in server.process.stdout:
        if found := re.search(r"listens on 127\.0\.0\.1, port (\d+)", line):
            return int(found[1])
    raise AssertionError("the command does not say where it listens")


def check_joining(page: Page, link: str) -> None:
    """By keyboard alone; a wrong name is explained and kept; who comes back finds their own interview."""
    page.keyboard.press("Enter")
    expect(page.locator("#name-wrong")).to_have_text("A name is needed.")
    assert_accessible_and_fits(page)
    page.keyboard.type("olga")
    page.keyboard.press("Enter")
    expect(page.locator("#name-wrong")).to_have_text("Someone called olga is here already; choose another name.")
    expect(page.locator("#name")).to_have_value("olga")
    page.locator("#name").fill("Anna")
    page.keyboard.press("Enter")
    page.wait_for_url(lambda url: url != link)
    next_question(page)
    own = page.url
    page.goto(link)
    expect(page.locator("#used-title")).to_have_text("This invitation has been used")
    expect(page.locator("#again-title")).to_have_text("Welcome back, Anna")
    expect(page.locator("#own")).to_be_focused()
    page.keyboard.press("Enter")
    page.wait_for_url(own)
    next_question(page)


def check_differing(olga: Page, overview: Page, anna: Page) -> None:
    """Each answers for themselves; both see where they differ, and what each wants."""
    answer_all(olga, UP)
    answer_all(anna, DOWN)
    goals = overview.locator("#people-list .goal")
    expect(goals.nth(0)).to_contain_text("The answers do not tell what Olga wants", timeout=30_000)
    expect(goals.nth(1)).to_contain_text("The answers do not tell what Anna wants", timeout=30_000)
    expect(overview.locator("#pairs tbody tr")).to_have_count(1)
    expect(overview.locator("#pairs tbody th")).to_have_text("Olga and Anna")
    middle = overview.locator("#disagreements tr", has_text="The middle")
    expect(middle.locator(".said")).to_have_text(["upOlga (you)", "downAnna"])
    anna.goto(f"{anna.url}people")
    expect(anna.locator("#invite")).to_be_hidden()
    expect(anna.locator("#people-list li")).to_have_count(2)
    anna.locator("#name").fill("Hannah")
    anna.keyboard.press("Enter")
    expect(overview.locator("#people-list")).to_contain_text("The answers do not tell what Hannah wants")
    assert_accessible_and_fits(overview)
    settle_and_remove(overview, anna)


def settle_and_remove(overview: Page, anna: Page) -> None:
    """The host says what counts, with a picture of where; how many answers are enough; and removes a guest."""
    overview.set_viewport_size({"width": 1280, "height": 800})
    middle = overview.locator("#disagreements tr", has_text="The middle")
    expect(middle.locator("svg .ring")).to_have_count(1)
    middle.get_by_role("button", name="up", exact=True).click()
    expect(middle.get_by_role("button", name="up", exact=True)).to_have_attribute("aria-pressed", "true")
    settled = anna.locator("#disagreements tr", has_text="The middle").locator("td").last
    expect(settled).to_have_text("up", timeout=10_000)
    overview.locator("#answers").fill("3")
    overview.keyboard.press("Enter")
    expect(overview.locator("#few")).to_contain_text("need more answers")
    overview.locator("#seats").fill("99")
    overview.keyboard.press("Enter")
    expect(overview.locator("#seats-wrong")).to_contain_text("A link is for 1 to 18 people")
    overview.locator("#seats").fill("2")
    overview.keyboard.press("Enter")
    expect(overview.locator(".link")).to_have_count(2)
    overview.locator(".link").last.get_by_role("button", name="Revoke").click()
    expect(overview.locator(".link")).to_have_count(1)
    overview.get_by_role("button", name="Remove Hannah").click()
    overview.locator("#really").click()
    expect(overview.locator("#people-list li")).to_have_count(1)
    expect(anna.locator("#trouble")).to_contain_text("token", timeout=10_000)
