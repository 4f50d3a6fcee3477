"""The last screen in a real browser: what the person wanted can be read from it, and seen on it."""

from __future__ import annotations

import io
import signal
import sys
from pathlib import Path

import numpy as np
from matplotlib.image import imread
from playwright.sync_api import Page, expect

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parents[1]))

from browsing import browser, next_question, press
from interviews import FLAG, TO_THE_FLAG

from studies.serving import Server


def test_who_wants_the_flag_reads_and_sees_it_at_the_end(tmp_path: Path) -> None:
    with browser() as chrome:
        server = Server("FrozenLake-v1", tmp_path)
        try:
            page = chrome.new_page(reduced_motion="reduce")
            page.goto(server.url)
            shown = next_question(page)
            while shown["phase"] == "asking":
                row, column = (int(part.split()[-1]) for part in shown["question"]["where"].split(", "))
                shown = press(page, f"Arrow{TO_THE_FLAG[4 * row + column - 5].capitalize()}")
            expect(page.locator("#wish")).to_have_text(f"You seem to want to reach {FLAG}.")
            expect(page.locator("#ending")).to_contain_text("the episode ended: the ")
            expect(page.locator("#next")).to_contain_text(f"aceirl export {tmp_path}")
            expect(page.locator("#rest-explained")).to_contain_text("row 4, column 3: down")
            for scheme in ("light", "dark"):
                page.emulate_media(color_scheme=scheme)
                light = brightness(page)
                flag = light.pop(FLAG)
                holes = [value for name, value in light.items() if "hole" in name]
                others = [value for name, value in light.items() if "hole" not in name]
                assert (len(holes), len(others)) == (4, 11)
                assert flag > 1.3 * max(others), "the flag is brightest"
                assert min(others) > 1.3 * max(holes), "holes are darkest"
        finally:
            server.stop(signal.SIGKILL)


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
