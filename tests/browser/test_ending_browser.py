"""The last screen in a real browser: what the person wanted can be read from it, and seen on it."""

from __future__ import annotations

import io
import re
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.image import imread
from playwright.sync_api import Browser, Page, Route, expect

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parents[1]))

from browsing import (
    SCHEMES,
    assert_accessible_and_fits,
    changed,
    click,
    next_question,
    reply,
    to_the_flag,
    visited,
)
from interviews import FLAG

from studies.serving import Server


@contextmanager
def lake(
    chrome: Browser, folder: Path, answers: int | None = None, **options: Any
) -> Iterator[tuple[Page, dict[str, Any]]]:
    """The last screen for somebody who wants the flag: at the end of all questions, or after so many answers."""
    server = Server("FrozenLake-v1", folder)
    try:
        with visited(chrome, server.url, **options) as page:
            shown = next_question(page)
            while shown["phase"] == "asking" and shown["progress"]["answers"] != answers:
                shown = reply(page, shown, to_the_flag)
            if answers is not None:
                shown = click(page, "#finish")
            yield page, shown
    finally:
        server.stop(signal.SIGKILL)


def test_who_wants_the_flag_reads_and_sees_it_at_the_end(chrome: Browser, tmp_path: Path) -> None:
    with lake(chrome, tmp_path) as (page, _):
        # A dozen answers fit too many rewards for a sentence; the map shows the reward all the same.
        expect(page.locator("#wish")).to_have_text("I cannot tell yet what you want.")
        why = "Your answers: too many simple rewards predict them equally well."
        expect(page.locator("#wish-why")).to_have_text(why)
        expect(page.locator("#ending")).to_contain_text("the episode ended: the ")
        expect(page.locator("#next")).to_contain_text(f"aceirl export {tmp_path}")
        expect(page.locator("#does > div", has_text="row 4, column 3")).to_contain_text("down")
        check_the_map(page)
        ask_back(page)


def ask_back(page: Page) -> None:
    """The rival wishes are there to choose from; what is said is taken in, shown, and taken back."""
    expect(page.locator("#back-title")).to_have_text("What did you want?")
    expect(page.locator("#rivals button").first).to_have_text(f"Get to {FLAG}")
    click(page, "#rivals button:first-child")
    expect(page.locator("#wish")).to_have_text(f"You say that you want to reach {FLAG}, and your answers agree.")
    expect(page.locator("#wish-why")).to_contain_text("are among the best for it, far more than by chance.")
    expect(page.locator("#said-verdict")).to_have_text(f"You said: get to {FLAG}.")
    assert_accessible_and_fits(page)
    page.set_viewport_size({"width": 1280, "height": 800})
    say_otherwise(page)
    click(page, "[data-verdict=yes]")
    expect(page.locator("#said-verdict")).to_have_text("You said: yes.")
    say_otherwise(page)
    page.locator("[data-verdict=no]").click()
    expect(page.locator("#choose")).to_be_visible()
    page.wait_for_selector("#final-belief image", state="attached")
    hole = page.locator("#final-belief rect", has_text="the hole in row 2, column 2")
    changed(page, hole.click)
    expect(page.locator("#said-verdict")).to_have_text("You said: no; get to the hole in row 2, column 2.")
    say_otherwise(page)
    expect(page.locator("#final-undo")).to_have_text("Undo “get to the hole in row 2, column 2” as what you want")
    avoided = page.locator("#place optgroup[label='Keep away from'] option").filter(has_text="row 3, column 1").first
    value = avoided.get_attribute("value")
    assert value is not None
    expect(page.locator("#choose-place")).to_be_disabled()
    page.locator("#place").select_option(value)
    click(page, "#choose-place")
    expect(page.locator("#said-verdict")).to_contain_text("keep away from row 3, column 1.")
    say_otherwise(page)
    page.locator("#besides").check()
    page.locator("#keep-away").check()
    changed(page, page.locator("#final-belief rect", has_text="row 1, column 4").click)
    expect(page.locator("#said-verdict")).to_contain_text("keep away from row 3, column 1; row 1, column 4.")
    for _ in range(5):
        click(page, "#final-undo")
    expect(page.locator("#said-verdict")).to_be_hidden()
    expect(page.locator("#wish")).to_have_text("I cannot tell yet what you want.")


def say_otherwise(page: Page) -> None:
    """Who has answered is not asked again, after a reload neither, and can still say something else."""
    page.reload()
    for _ in range(2):
        expect(page.locator("#back-title")).to_have_text("Thank you, noted")
        for hidden in ("#verdicts", "#choose"):
            expect(page.locator(hidden)).to_be_hidden()
        page.wait_for_timeout(1300)  # until the page has asked the server for news
    page.locator("#change-verdict").click()
    expect(page.locator("#back-title")).to_have_text(re.compile("Is that what you wanted|What did you want"))
    expect(page.locator("#change-verdict")).to_be_hidden()
    page.wait_for_selector("#final-belief image", state="attached")


def test_more_questions_can_be_asked_for_at_the_end(chrome: Browser, tmp_path: Path) -> None:
    """Whoever finishes early is asked about some of what the agent has met, and comes back to the last screen."""
    with lake(chrome, tmp_path, 3) as (page, shown):
        expect(page.locator("#more")).to_be_visible()
        assert_accessible_and_fits(page)
        more = shown["outcome"]["wish"]["more"]
        expect(page.locator("#more")).to_have_text(f"Ask me {more} questions more")
        changed(page, page.locator("#more").click)
        shown = next_question(page)
        expect(page.locator("#why")).to_contain_text("You may want several things that differ in what to do here")
        for _ in range(more):
            shown = reply(page, shown, to_the_flag)
        assert (shown["phase"], shown["progress"]["answers"]) == ("done", 3 + more)


def test_the_film_of_an_early_ending_is_there_on_a_phone_even_if_it_comes_late(chrome: Browser, tmp_path: Path) -> None:
    phone = {"viewport": {"width": 390, "height": 844}, "has_touch": True, "is_mobile": True}
    with lake(chrome, tmp_path, 1, **phone) as (page, _):
        film, failed = page.locator("#film .scene"), list[Route]()

        def fail_once(route: Route) -> None:
            if failed:
                route.continue_()
            else:
                failed.append(route)

        page.route("**/film?*", fail_once)
        page.locator("#another").click()
        expect(film).to_have_text("The film is being made …")
        failed[0].abort()
        expect(film).to_have_text("There is no film yet.")
        expect(film.locator("img")).to_be_visible(timeout=30_000)
        box = film.locator("img").bounding_box()
        assert box is not None
        assert box["width"] > 300
        assert box["height"] > 300
        expect(page.locator("#film .film-words")).to_contain_text("Step 0.")
        expect(page.locator("#trouble")).to_be_hidden()


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
