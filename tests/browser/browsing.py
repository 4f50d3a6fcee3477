"""A real browser, for the tests of the interview's page and for its pictures."""

from __future__ import annotations

import shutil
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

from playwright.sync_api import Browser, Page, sync_playwright

sys.path.insert(0, str(Path(__file__).parents[1]))

from interviews import TO_THE_FLAG

from studies.serving import Server

# What a person would do in a situation of that name, by the action's name.
Person = Callable[[str], str]

SCHEMES: tuple[Literal["light", "dark"], ...] = ("light", "dark")
ROOT = Path(__file__).parents[2]
AXE = ROOT / "node_modules" / "axe-core" / "axe.min.js"
SWITCHES = [
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


def chromium() -> str:
    """The path of Chromium; without one the tests fail, since leaving them out is `make test`'s decision."""
    for name in ("chromium", "chromium-browser", "google-chrome"):
        found = shutil.which(name)
        if found:
            return found
    raise AssertionError("no Chromium on the PATH; on Debian and Ubuntu: apt-get install chromium")


@contextmanager
def browser() -> Iterator[Browser]:
    """A headless Chromium."""
    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=chromium(), args=SWITCHES)
        yield opened
        opened.close()


def moment(page: Page) -> dict[str, Any]:
    """What the server would show now."""
    shown: dict[str, Any] = page.evaluate("fetch('view').then((response) => response.json())")
    return shown


@contextmanager
def visited(chrome: Browser, url: str, **options: Any) -> Iterator[Page]:
    """A page in a browser of its own; at the end nothing went wrong in its program."""
    context = chrome.new_context(reduced_motion="reduce", **options)
    page = context.new_page()
    complaints: list[str] = []
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("console", lambda m: complaints.append(m.text) if "Content Security Policy" in m.text else None)
    page.goto(url)
    yield page
    context.close()
    assert not complaints, "\n".join(complaints)


def next_question(page: Page, patience: float = 60) -> dict[str, Any]:
    """The next moment at which the person is asked or the interview is over, and the page shows it."""
    deadline = time.monotonic() + patience
    while time.monotonic() < deadline:
        shown = moment(page)
        if page.locator("#begin").is_visible():
            page.locator("#begin").click()
        if shown["phase"] in ("asking", "done"):
            page.wait_for_function(
                "({ turn, phase }) => document.body.dataset.turn === turn && document.body.dataset.phase === phase",
                arg={"turn": str(shown["turn"]), "phase": shown["phase"]},
                polling=100,
            )
            page.wait_for_selector("body[data-settled]")  # what is clicked sooner does not count
            if shown["phase"] == "asking":
                assert (page.locator("#where").text_content() or "").startswith(shown["question"]["where"])
            return shown
        time.sleep(0.1)
    raise AssertionError(f"still {shown['phase']} after {patience} seconds")


def inferred(page: Page, patience: float = 60) -> dict[str, Any]:
    """The next question, when all that was said before it has been taken into account: people take their time."""
    deadline = time.monotonic() + patience
    while time.monotonic() < deadline:
        shown = next_question(page)
        if shown["phase"] == "done" or shown["turn"] == 0 or shown["tag"].split(".")[3] == str(shown["turn"]):
            return shown
        time.sleep(0.1)
    raise AssertionError(f"nothing inferred after {patience} seconds")


def changed(page: Page, act: Callable[[], Any], patience: float = 60) -> dict[str, Any]:
    """Do something that changes the interview, and wait for what comes next."""
    turn = moment(page)["turn"]
    act()
    deadline = time.monotonic() + patience
    while moment(page)["turn"] <= turn:
        assert time.monotonic() < deadline, f"nothing was changed within {patience} seconds"
        time.sleep(0.1)
    return next_question(page, patience)


def press(page: Page, key: str) -> dict[str, Any]:
    """Press a key that changes the interview, and wait for what comes next."""
    return changed(page, lambda: page.keyboard.press(key))


def click(page: Page, selector: str) -> dict[str, Any]:
    """Click something that changes the interview, and wait for what comes next."""
    return changed(page, page.locator(selector).click)


def kill_and_restart(page: Page, server: Server) -> None:
    """Kill the server and, when the page says that it is gone, start it again; the page goes on by itself."""
    server.stop(signal.SIGKILL)
    page.wait_for_selector("#trouble:not([hidden])", timeout=60_000)
    server.restart()
    page.wait_for_selector("#trouble", state="hidden", timeout=60_000)


def start_again(page: Page) -> dict[str, Any]:
    """Put all answers aside."""
    page.locator("#again").click()
    return click(page, "#really")


def keys(page: Page) -> dict[str, str]:
    """The key of each action, by the action's name."""
    actions = page.evaluate("JSON.parse(document.getElementById('about').textContent).actions")
    return {action["name"]: action["key"] for action in actions}


def reply(page: Page, shown: dict[str, Any], person: Person) -> dict[str, Any]:
    """Say to what is shown what a person would: a situation by its key; an episode by approval or by what is wrong."""
    question = shown["question"]
    if question["kind"] == "situation":
        return press(page, keys(page)[person(question["where"])])
    assert question["kind"] == "episode"
    wrong = [n for n, step in enumerate(question["steps"]) if person(step["name"]) != step["words"]]
    if not wrong:
        watch(page)
        return press(page, "y")
    step = page.locator("#guesses > li").nth(wrong[0])
    step.locator(".guess").click()
    meant = person(question["steps"][wrong[0]]["name"])
    return changed(page, step.locator(".choices").get_by_role("button", name=meant, exact=True).click)


def watch(page: Page) -> None:
    """Watch the episode that is shown to its end."""
    page.wait_for_function("() => document.querySelector('#episode .seek').max > 0")
    page.locator("#episode .seek").evaluate(
        "(seek) => { seek.value = seek.max; seek.dispatchEvent(new Event('input')); }"
    )


def to_the_flag(name: str) -> str:
    """What somebody does in FrozenLake who wants the flag."""
    row, column = (int(part.split()[-1]) for part in name.split(", "))
    return TO_THE_FLAG[4 * row + column - 5]


def to_the_upper_end(name: str) -> str:
    """What somebody does in Four Paths who wants the end of the upper corridor."""
    return {"left": "right", "right": "left"}.get(name.split()[1], "up")


def assert_accessible(page: Page) -> None:
    """No serious finding of axe-core, light and dark; its rules include the contrast asked for by WCAG AA."""
    assert AXE.exists(), "axe-core is missing; run npm ci"
    # The page's own policy forbids foreign scripts; the debugger may still run one.
    page.evaluate(AXE.read_text(encoding="utf-8") + ";undefined")
    for scheme in SCHEMES:
        page.emulate_media(color_scheme=scheme)
        found = page.evaluate("axe.run(document).then((result) => result.violations)")
        serious = [
            f"{scheme}, {finding['id']}: {finding['help']} ({finding['nodes'][0]['html']})"
            for finding in found
            if finding["impact"] in ("serious", "critical")
        ]
        assert not serious, "\n".join(serious)


def assert_accessible_and_fits(page: Page) -> None:
    """Accessible at both widths, light and dark, and nothing sticks out."""
    for width in (1280, 390):
        page.set_viewport_size({"width": width, "height": 844})
        assert_accessible(page)
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), f"too wide for {width}"
