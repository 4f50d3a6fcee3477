"""The pictures of the interview in the documentation: `PYTHONPATH=. python tests/browser/pictures.py docs/images`.

With `--all` every moment is taken at both widths, light and dark, to look at them.
"""

from __future__ import annotations

import argparse
import signal
import tempfile
from collections.abc import Callable, Iterator
from contextlib import chdir, contextmanager
from pathlib import Path
from typing import Any

from browsing import (
    SCHEMES,
    browser,
    changed,
    click,
    inferred,
    keys,
    next_question,
    press,
    reply,
    start_again,
    to_the_flag,
    visited,
)
from playwright.sync_api import Browser, Page
from test_driven_browser import choose, seek, settled, step
from test_taxi_browser import TAXI, driver, say

from studies.serving import Server

# The moments that the documentation shows, and their files; `--all` has every moment at every width and scheme.
KEPT = {
    "rules-1280-light": "interview-rules",
    "middle-1280-light": "interview",
    "middle-390-light": "interview-phone",
    "episode-1280-light": "interview-episode",
    "ending-1280-light": "interview-ending",
    "set-up-1280-light": "interview-set-up",
    "two-people-1280-light": "interview-two-people",
    "driving-1280-light": "driving",
}
SIZES = {1280: 800, 390: 844}
HALF_WAY = 8


class Camera:
    """Takes pictures of a page into a folder, of all moments or of those that are kept."""

    def __init__(self, chrome: Browser, folder: Path, *, everything: bool) -> None:
        self.chrome, self.folder, self.everything = chrome, folder, everything

    def take(self, url: str, name: str, ready: Callable[[Page], None] = lambda page: None) -> None:
        """One moment at both widths, light and dark, each in a new page that `ready` makes ready."""
        for width, height in SIZES.items():
            for scheme in SCHEMES:
                taken = f"{name}-{width}-{scheme}"
                file = taken if self.everything else KEPT.get(taken)
                if file is None:
                    continue
                phone = width < 500
                options = {"viewport": {"width": width, "height": height}, "color_scheme": scheme}
                with visited(self.chrome, url, has_touch=phone, is_mobile=phone, **options) as page:
                    ready(page)
                    page.wait_for_timeout(600)
                    # On a phone the documentation shows what is on one screen.
                    whole = self.everything or not phone
                    page.screenshot(path=str(self.folder / f"{file}.png"), full_page=whole)


@contextmanager
def served(environment: str | None, *options: str) -> Iterator[Server]:
    """A server in a folder of its own, with a short name."""
    with tempfile.TemporaryDirectory() as folder, chdir(folder):
        server = Server(environment, Path("runs/mine"), *options)
        yield server
        server.stop(signal.SIGKILL)


def asked(page: Page) -> None:
    """A question."""
    next_question(page)


def tried_out(page: Page) -> None:
    """The rules, with something tried out."""
    page.locator("#try-actions").get_by_role("button", name="right", exact=True).click()
    page.wait_for_function("() => document.getElementById('try-words').textContent.startsWith('You pressed')")


def with_map(page: Page) -> None:
    """The question or the ending, with its map."""
    next_question(page)
    page.wait_for_selector("#belief .w8, #final-belief .w8", state="attached")


def half_way_through(selector: str) -> Callable[[Page], None]:
    """Films at a step in the middle."""

    def ready(page: Page) -> None:
        next_question(page)
        for film in page.locator(selector).all():
            page.wait_for_function("(seek) => seek.max > 0", arg=film.locator(".seek").element_handle())
            film.locator(".seek").evaluate(
                "(seek) => { seek.value = Math.ceil(seek.max * 0.7); seek.dispatchEvent(new Event('input')); }"
            )
            page.wait_for_function("(scene) => scene.childElementCount", arg=film.locator(".scene").element_handle())

    return ready


def opened_by(button: str, dialog: str) -> Callable[[Page], None]:
    """A dialog over the question."""

    def ready(page: Page) -> None:
        next_question(page)
        page.locator(button).click()
        page.wait_for_selector(f"{dialog}[open]")

    return ready


def painting(page: Page) -> None:
    """An answer that is to hold for places that are painted on the map."""
    next_question(page)
    page.locator("#same summary").click()
    for cell in page.locator("#paint rect").all()[2:5]:
        cell.click()


def wrong_aim(page: Page) -> None:
    """What is said of an accuracy that cannot be had."""
    opened_by("#set-aim", "#aim-dialog")(page)
    page.locator("#horizon").fill("1000000000")
    page.keyboard.press("Enter")
    page.wait_for_selector("#aim-wrong:not([hidden])")


def denied(page: Page) -> None:
    """The ending, when the person says that it is not what they wanted."""
    with_map(page)
    page.locator("#change-verdict").click()
    page.locator("[data-verdict=no]").click()


def lake(camera: Camera) -> None:
    """FrozenLake for somebody who wants the flag: rules, questions of every mode, dialogs, ending, and two people."""
    with served("FrozenLake-v1", "--name", "Olga") as server, visited(camera.chrome, server.url) as page:
        camera.take(server.url, "rules", tried_out)
        shown = next_question(page)
        camera.take(server.url, "question", asked)
        camera.take(server.url, "painting", painting)
        if camera.everything:
            shown = other_modes(camera, server, page)
        while shown["phase"] == "asking":
            shown = reply(page, shown, to_the_flag)
            if shown["phase"] == "asking" and shown["progress"]["answers"] == HALF_WAY:
                inferred(page)
                camera.take(server.url, "middle", with_map)
                camera.take(server.url, "history", opened_by("#list-answers", "#answers-dialog"))
                camera.take(server.url, "accuracy-wrong", wrong_aim)
                camera.take(server.url, "start-again", opened_by("#again", "#again-dialog"))
        camera.take(server.url, "ending-open", with_map)
        click(page, "#rivals button:first-child")
        camera.take(server.url, "ending", with_map)
        camera.take(server.url, "ending-denied", denied)
        two_people(camera, server, page)
        if camera.everything:
            gone(camera, server)


def other_modes(camera: Camera, server: Server, page: Page) -> dict[str, Any]:
    """Playing and comparing; then all is put aside."""
    changed(page, page.get_by_text("I play", exact=True).click)
    press(page, "ArrowDown")
    camera.take(server.url, "play", asked)
    changed(page, page.get_by_text("I compare", exact=True).click)
    camera.take(server.url, "comparison", half_way_through("#pair > section"))
    changed(page, page.get_by_text("Ask me", exact=True).click)
    return start_again(page)


def two_people(camera: Camera, server: Server, page: Page) -> None:
    """And somebody else who wants to stay at the upper edge; where they differ the host decides."""
    page.goto(f"{server.url}people")
    link = page.locator(".invitation").input_value()
    camera.take(link, "join")
    with visited(camera.chrome, link) as other:
        other.locator("#name").fill("Anna")
        other.keyboard.press("Enter")
        other.wait_for_selector("#actions button", state="attached")
        while (shown := next_question(other))["phase"] == "asking":
            reply(other, shown, lambda name: "up")
    camera.take(link, "invitation-used")
    page.reload()
    page.locator("#disagreements .choices button").first.click()
    camera.take(f"{server.url}people", "two-people", lambda page: page.wait_for_timeout(2000))


def gone(camera: Camera, server: Server) -> None:
    """What the page says when the server is not there any more, or the token is wrong."""

    def unplugged(page: Page) -> None:
        page.context.set_offline(True)
        page.wait_for_selector("#trouble:not([hidden])", timeout=20_000)

    camera.take(server.url, "error-server-gone", unplugged)
    camera.take(server.url.rstrip("/")[:-4] + "xxxx/", "error-token")


def taxi(camera: Camera) -> None:
    """Taxi, when the agent shows an episode that it walked on guesses."""
    with served(TAXI, "--horizon", "30") as server, visited(camera.chrome, server.url) as page:
        person, shown = driver(list(keys(page))), next_question(page)
        while shown["question"]["kind"] != "episode":
            shown = say(page, inferred(page) if shown["progress"]["answers"] > 20 else shown, person)
        camera.take(server.url, "episode", half_way_through("#episode"))


def driving(camera: Camera) -> None:
    """CartPole, driven by somebody who keeps the pole upright."""
    with served("CartPole-v1", "--horizon", "60") as server, visited(camera.chrome, server.url) as page:
        camera.take(server.url, "driving-rules")
        page.locator("#begin").click()
        settled(page, "driving")
        for _ in range(24):
            step(page)
        camera.take(server.url, "driving")
        if not camera.everything:
            return
        choose(page, "Ask me", "asked")
        camera.take(server.url, "driving-asked", lambda page: page.wait_for_timeout(1500))
        choose(page, "I take over", "watching")
        camera.take(server.url, "driving-watched", lambda page: seek(page, 0.5))
        seek(page, 0.5)
        step(page)
        settled(page, "driving")
        camera.take(server.url, "driving-taken-over")
        page.locator("#finish").click()
        settled(page, "done")
        camera.take(server.url, "driving-ending", lambda page: page.wait_for_timeout(3000))


def set_up(camera: Camera) -> None:
    """The page on which an interview is set up."""
    with served(None) as server:
        camera.take(server.url, "set-up", lambda page: page.wait_for_timeout(500))
        camera.take(server.url, "set-up-wrong", wrongly_set_up)


def wrongly_set_up(page: Page) -> None:
    """What is said of a value that cannot be."""
    page.locator("details summary").first.click()
    page.locator("#epsilon").fill("7")
    page.locator("form button.primary").last.click()
    page.wait_for_selector(".wrong:not([hidden])")


def main(options: argparse.Namespace) -> None:
    """All pictures."""
    with browser() as chrome:
        camera = Camera(chrome, options.folder.resolve(), everything=options.all)
        parts: dict[str, Callable[[Camera], Any]] = {"lake": lake, "taxi": taxi, "set-up": set_up, "driving": driving}
        for name, part in parts.items():
            if options.only in (None, name):
                part(camera)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--all", action="store_true")
    parser.add_argument("--only", choices=("lake", "taxi", "set-up", "driving"))
    main(parser.parse_args())
