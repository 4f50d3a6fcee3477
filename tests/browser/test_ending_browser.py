"""The last screen in a real browser: what the person wanted can be read from it, and seen on it."""

from __future__ import annotations

import io
import re
import signal
import sys
from pathlib import Path

import numpy as np
from matplotlib.image import imread
from playwright.sync_api import Page, expect

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parents[1]))

from browsing import (
    SCHEMES,
    assert_accessible_and_fits,
    browser,
    changed,
    click,
    next_question,
    reply,
    to_the_flag,
    visited,
)
from interviews import FLAG

from studies.serving import Server


def test_who_wants_the_flag_reads_and_sees_it_at_the_end(tmp_path: Path) -> None:
    with browser() as chrome:
        server = Server("FrozenLake-v1", tmp_path)
        try:
            with visited(chrome, server.url) as page:
                shown = next_question(page)
                while shown["phase"] == "asking":
                    shown = reply(page, shown, to_the_flag)
                # A dozen answers fit too many wishes for a sentence; the map shows the reward all the same.
                expect(page.locator("#wish")).to_have_text("I cannot tell yet what you want.")
                expect(page.locator("#wish-why")).to_have_text("Too many simple rewards predict them equally well.")
                expect(page.locator("#ending")).to_contain_text("the episode ended: the ")
                expect(page.locator("#next")).to_contain_text(f"aceirl export {tmp_path}")
                expect(page.locator("#does > div", has_text="row 4, column 3")).to_contain_text("down")
                check_the_map(page)
                ask_back(page)
        finally:
            server.stop(signal.SIGKILL)


def ask_back(page: Page) -> None:
    """The rival wishes are there to choose from; what is said is taken in, shown, and taken back."""
    expect(page.locator("#back-title")).to_have_text("What did you want?")
    expect(page.locator("#rivals button").first).to_have_text(f"Get to {FLAG}")
    click(page, "#rivals button:first-child")
    expect(page.locator("#wish")).to_have_text(f"You say that you want to reach {FLAG}, and your answers agree.")
    expect(page.locator("#wish-why")).to_contain_text("are among the best for it, far more than by chance.")
    expect(page.locator("#said-verdict")).to_have_text(f"You said: get to {FLAG}.")
    expect(page.locator("#back-title")).to_have_text("Is that what you wanted?")
    assert_accessible_and_fits(page)
    page.set_viewport_size({"width": 1280, "height": 800})
    click(page, "[data-verdict=yes]")
    expect(page.locator("#said-verdict")).to_have_text("You said: yes.")
    expect(page.locator("#choose")).to_be_hidden()
    page.locator("[data-verdict=no]").click()
    expect(page.locator("#choose")).to_be_visible()
    page.wait_for_selector("#final-belief image", state="attached")
    hole = page.locator("#final-belief rect", has_text="the hole in row 2, column 2")
    changed(page, hole.click)
    expect(page.locator("#said-verdict")).to_have_text("You said: no; get to the hole in row 2, column 2.")
    expect(page.locator("#final-undo")).to_have_text("Undo “get to the hole in row 2, column 2” as what you want")
    avoided = page.locator("#place optgroup[label='Keep away from'] option").filter(has_text="row 3, column 1").first
    value = avoided.get_attribute("value")
    assert value is not None
    expect(page.locator("#choose-place")).to_be_disabled()
    page.locator("#place").select_option(value)
    click(page, "#choose-place")
    expect(page.locator("#said-verdict")).to_contain_text("keep away from row 3, column 1.")
    page.locator("#besides").check()
    page.locator("#keep-away").check()
    changed(page, page.locator("#final-belief rect", has_text="row 1, column 4").click)
    expect(page.locator("#said-verdict")).to_contain_text("keep away from row 3, column 1; row 1, column 4.")
    for _ in range(5):
        click(page, "#final-undo")
    expect(page.locator("#said-verdict")).to_be_hidden()
    expect(page.locator("#wish")).to_have_text("I cannot tell yet what you want.")


def test_more_questions_can_be_asked_for_at_the_end(tmp_path: Path) -> None:
    """Whoever finishes early is asked about some of what the agent has met, and comes back to the last screen."""
    with browser() as chrome:
        server = Server("FrozenLake-v1", tmp_path)
        try:
            with visited(chrome, server.url) as page:
                shown = next_question(page)
                while shown["progress"]["answers"] < 3:
                    shown = reply(page, shown, to_the_flag)
                click(page, "#finish")
                expect(page.locator("#more")).to_be_visible()
                assert_accessible_and_fits(page)
                shown = page.evaluate("() => fetch('view').then((sent) => sent.json())")
                more = shown["outcome"]["wish"]["more"]
                expect(page.locator("#more")).to_have_text(f"Ask me {more} questions more")
                changed(page, page.locator("#more").click)
                shown = next_question(page)
                expect(page.locator("#why")).to_contain_text(
                    "You may want several things that differ in what to do here"
                )
                for _ in range(more):
                    shown = reply(page, shown, to_the_flag)
                assert (shown["phase"], shown["progress"]["answers"]) == ("done", 3 + more)
        finally:
            server.stop(signal.SIGKILL)


def check_the_map(page: Page) -> None:
    """The flag is of the brightest colour and holes of the darkest, and that is how it looks, light and dark."""
    cells = page.locator("#final-belief rect")
    expect(cells.filter(has_text=FLAG)).to_have_class(re.compile(r"\bw8\b"))
    for hole in cells.filter(has_text="the hole").all():
        expect(hole).to_have_class(re.compile(r"\bw0\b"))
    for scheme in SCHEMES:
        page.emulate_media(color_scheme=scheme)
        light = brightness(page)
        flag = light.pop(FLAG)
        holes = [value for name, value in light.items() if "hole" in name]
        others = [value for name, value in light.items() if "hole" not in name]
        assert (len(holes), len(others)) == (4, 11)
        assert flag > 1.3 * max(others), "the flag is brightest"
        assert min(others) > 1.3 * max(holes), "holes are darkest"


def brightness(page: Page) -> dict[str, float]:
    """How bright the places on the map are, from 0 to 1, by their names."""
    page.wait_for_selector("#final-belief image", state="attached")
    found = {}
    for place in page.locator("#final-belief rect").all():
        pixels = np.asarray(imread(io.BytesIO(place.screenshot()), format="png"), dtype=np.float64)
        name = place.locator("title").text_content()
        assert name is not None
        found[name] = float((pixels[..., :3] @ [0.2126, 0.7152, 0.0722]).mean())
    return found
