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

from browsing import SCHEMES, browser, next_question, reply, to_the_flag, visited
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
                expect(page.locator("#wish")).to_contain_text("The answers do not tell what you want")
                expect(page.locator("#ending")).to_contain_text("the episode ended: the ")
                expect(page.locator("#next")).to_contain_text(f"aceirl export {tmp_path}")
                expect(page.locator("#rest-explained")).to_contain_text("row 4, column 3: down")
                check_the_map(page)
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
