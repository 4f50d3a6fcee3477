"""The site as `make docs` built it: every public name and example is in it, links lead somewhere, nothing is loaded
from elsewhere, and people can read it."""

from __future__ import annotations

import importlib
import json
import sys
import threading
from collections.abc import Iterator
from functools import partial
from html.parser import HTMLParser
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urldefrag

import pytest
from sphinx.util.inventory import InventoryFile

import aceirl

ROOT = Path(__file__).parents[1]
SITE = ROOT / "build" / "docs"
EXAMPLES = sorted(path.stem for path in (ROOT / "docs" / "examples").glob("*.py"))
PACKAGES = [
    ".".join(path.parent.relative_to(ROOT / "src").parts)
    for path in sorted((ROOT / "src" / "aceirl").glob("*/**/__init__.py"))
    if "__all__ =" in path.read_text(encoding="utf-8")
]
PAGES = sorted(SITE.rglob("*.html"))

sys.path.insert(0, str(ROOT / "tests" / "browser"))


class Parsed(HTMLParser):
    """What a page links to, what it loads, and the places in it that can be linked to."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.links: list[str] = []
        self.loaded: list[str] = []
        self.anchors: set[str] = set()
        self.without_words: list[str] = []
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = {name: value or "" for name, value in attrs}
        self.anchors |= {values[name] for name in ("id", "name") if name in values}
        if tag == "a" and "href" in values:
            self.links.append(values["href"])
        if "src" in values or (tag == "link" and values.get("rel") not in ("canonical", "search", "prev", "next")):
            self.loaded.append(values.get("src") or values.get("href", ""))
        if tag == "img" and not values.get("alt", "").strip() and "_thumb." not in values["src"]:  # its title is beside
            self.without_words.append(values.get("src", ""))


@pytest.fixture(scope="module")
def parsed() -> dict[Path, Parsed]:
    assert PAGES, "the site is not built; run make docs"
    return {page: Parsed(page) for page in PAGES}


def outside(link: str) -> bool:
    return link.startswith(("http:", "https:", "//", "mailto:"))


def test_links_lead_somewhere(parsed: dict[Path, Parsed]) -> None:
    checked = 0
    for page, found in parsed.items():
        for link in found.links:
            if outside(link):
                continue
            path, anchor = urldefrag(unquote(link))
            target = (page.parent / path).resolve() if path else page
            assert target.exists(), f"{page.name}: {link}"
            if anchor and target.suffix == ".html":
                assert anchor in parsed[target].anchors, f"{page.name}: {link}"
            checked += 1
    assert checked > 2000


def test_nothing_is_loaded_from_elsewhere(parsed: dict[Path, Parsed]) -> None:
    for page, found in parsed.items():
        assert not [link for link in found.loaded if outside(link)], page
    for sheet in SITE.rglob("*.css"):
        text = sheet.read_text(encoding="utf-8")
        assert "url(http" not in text, sheet
        assert "@import" not in text or "@import url(http" not in text, sheet


def test_pictures_have_words(parsed: dict[Path, Parsed]) -> None:
    for page, found in parsed.items():
        assert not found.without_words, page


def documented() -> set[str]:
    """The names in the inventory, which other sites link to."""
    inventory = InventoryFile.loads((SITE / "objects.inv").read_bytes(), uri="")
    return {name for kind in inventory.data if kind.startswith("py:") for name in inventory.data[kind]}


def thing(name: str) -> Any:
    """What a dotted name stands for."""
    module, _, rest = name.rpartition(".")
    try:
        return getattr(importlib.import_module(module), rest) if module else importlib.import_module(name)
    except (ImportError, AttributeError):
        return None


def test_every_public_name_is_in_the_reference() -> None:
    names = documented()
    assert {f"aceirl.{name}" for name in aceirl.__all__} <= names
    described = {id(found) for found in map(thing, names) if found is not None}
    assert len(PACKAGES) >= 12
    for package in PACKAGES:
        module = importlib.import_module(package)
        for name in module.__all__:
            assert f"{package}.{name}" in names or id(getattr(module, name)) in described, f"{package}.{name}"


def test_every_example_was_executed_and_drew_one_picture() -> None:
    assert len(EXAMPLES) >= 12
    for name in EXAMPLES:
        drawn = sorted((SITE / "_images").glob(f"sphx_glr_{name}_*.png"))
        assert [path.stem.endswith("_001") for path in drawn if "thumb" not in path.stem] == [True], name
        took = json.loads((ROOT / "docs" / "gallery" / f"{name}.cost.json").read_text(encoding="utf-8"))
        assert took["time"] < 60, f"{name} took {took['time']:.0f} s"


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """The site, served on this machine."""

    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, format: str, *args: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=SITE)) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


OF_EACH_KIND = (
    "index", "start", "choosing", "gallery/index", "gallery/08_bins", "reference/transfer", "search",
)  # fmt: skip
"""Axe takes long on large pages, and these have all that the others have."""


@pytest.fixture(scope="module")
def chrome() -> Iterator[Any]:
    from browsing import browser

    with browser() as opened:
        yield opened


@pytest.mark.parametrize("page", OF_EACH_KIND)
def test_pages_are_accessible_and_fit_a_phone_in_a_browser(page: str, address: str, chrome: Any) -> None:
    from browsing import assert_accessible_and_fits, visited

    with visited(chrome, f"{address}/{page}.html") as shown:
        assert_accessible_and_fits(shown)


def test_all_pages_fit_a_phone_in_a_browser(address: str, chrome: Any) -> None:
    from browsing import visited

    for page in PAGES:
        with visited(chrome, f"{address}/{page.relative_to(SITE).as_posix()}") as shown:
            shown.set_viewport_size({"width": 390, "height": 844})
            assert shown.evaluate("document.documentElement.scrollWidth <= innerWidth"), f"{page} is too wide"


def test_the_search_finds_a_term_in_a_browser(address: str, chrome: Any) -> None:
    from browsing import visited

    with visited(chrome, f"{address}/search.html?q=hurry") as shown:
        shown.wait_for_selector("#search-results li a")
        found = shown.locator("#search-results li a").all_inner_texts()
        assert any("Rewards that explain" in title for title in found), found
