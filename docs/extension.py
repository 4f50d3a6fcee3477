"""What the site needs beyond Sphinx: links into the gallery, formulas as MathML, pictures of examples."""

from __future__ import annotations

import ast
import logging
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import latex2mathml.converter
from docutils import nodes
from sphinx.application import Sphinx
from sphinx_gallery.scrapers import figure_rst

import aceirl

EXAMPLE = re.compile(r"\]\((?:\.\./)?examples/(\w+)\.py\)")
ROOT_NAMES = frozenset(aceirl.__all__)


def gallery_links(app: Sphinx, page: str, source: list[str]) -> None:
    """A link to an example's file, which a repository shows, leads to its page in the gallery."""
    up = "../" * page.count("/")
    source[0] = EXAMPLE.sub(rf"]({up}gallery/\1.rst)", source[0]).replace("](examples)", f"]({up}gallery/index.rst)")


def repository_links(app: Sphinx, page: str, source: list[str]) -> None:
    """What lies beside the docs in the repository is no page of the site: the words stay, the link goes."""
    source[0] = re.sub(r"\[([^\]]+)\]\(\.\./[A-Z]+\.(?:md|cff)\)", r"\1", source[0])


def written_once(app: Sphinx, kind: str, name: str, value: Any, skip: bool, options: Any) -> bool | None:
    """What the package itself offers is described there, and not again where it was made."""
    return True if name in ROOT_NAMES and getattr(aceirl, name, None) is value else None


def as_restructured_text(app: Sphinx, kind: str, name: str, value: Any, options: Any, lines: list[str]) -> None:
    """Docstrings are Markdown in two things: an indented block is code, and settings are listed below their heading."""
    text: list[str] = []
    for before, line in zip(["", *lines], lines, strict=False):
        indented, above = line.startswith("    "), next((one for one in reversed(text) if one.strip()), "")
        if listed := re.fullmatch(r"    +(\w+): (.*)", line) if above.endswith("Settings:") or "`: " in above else None:
            text += ["", f"* `{listed[1]}`: {listed[2]}"]
            continue
        if indented and not before.strip() and not above.startswith((" ", "* ")):
            text += ["::", ""]
        text.append(line)
    lines[:] = text


def readable_signature(
    app: Sphinx, kind: str, name: str, value: Any, options: Any, signature: str | None, returns: str | None
) -> tuple[str | None, str | None]:
    """Defaults that are made anew each time, and aliases of types, have a text that readers know."""

    def plain(text: str | None) -> str | None:
        return text and re.sub(r"TypeAliasForwardRef\('(\w+)'\)", r"\1", text.replace("<factory>", "..."))

    return plain(signature), plain(returns)


def mathml(display: str) -> Callable[[Any, nodes.Element], None]:
    """Writes a formula as MathML, which browsers draw by themselves."""

    def visit(translator: Any, node: nodes.Element) -> None:
        text = latex2mathml.converter.convert(node.astext(), display=display)
        translator.body.append(text if display == "inline" else f'<div class="math">{text}</div>')
        raise nodes.SkipNode

    return visit


def figure_scraper(block: Any, variables: dict[str, Any], settings: dict[str, Any]) -> str:
    """Keeps the figure that an example calls `figure`, whether pyplot knows of it or not."""
    figure = variables["example_globals"].pop("figure", None)
    if figure is None:
        return ""
    path = next(variables["image_path_iterator"])
    figure.savefig(path, dpi=110, bbox_inches="tight", facecolor="white")
    words = ast.get_docstring(ast.parse(Path(variables["src_file"]).read_text(encoding="utf-8")))
    title = (words or "").splitlines()[0]
    return str(figure_rst([path], settings["src_dir"], f"{title}: the picture that this example draws"))


ACCESSIBLE = (
    (re.compile(r'<p class="caption" role="heading">'), '<p class="caption" role="heading" aria-level="2">'),
    (re.compile(r"<pre>"), '<pre tabindex="0">'),
    (re.compile(r'<div class="(table-wrapper[^"]*|math)">'), r'<div class="\1" tabindex="0">'),
    (re.compile(r'<aside class="sidebar-drawer">'), '<aside class="sidebar-drawer" aria-label="All pages">'),
    (re.compile(r'<aside class="toc-drawer([^"]*)">'), r'<aside class="toc-drawer\1" aria-label="On this page">'),
)
"""What the theme leaves out: levels of headings, names of landmarks, a way to scroll with the keyboard."""


def make_accessible(app: Sphinx, error: Exception | None) -> None:
    """Mend the pages once they are all written."""
    if error is not None or app.builder.format != "html":
        return
    for page in Path(app.outdir).rglob("*.html"):
        text = mended = page.read_text(encoding="utf-8")
        for pattern, instead in ACCESSIBLE:
            mended = pattern.sub(instead, mended)
        if mended != text:
            page.write_text(mended, encoding="utf-8")


def setup(app: Sphinx) -> dict[str, Any]:
    logging.getLogger("aceirl").setLevel(logging.WARNING)  # Sphinx would show every line
    app.add_html_math_renderer("mathml", (mathml("inline"), None), (mathml("block"), None))
    app.connect("source-read", gallery_links)
    app.connect("source-read", repository_links)
    app.connect("autodoc-skip-member", written_once)
    app.connect("autodoc-process-docstring", as_restructured_text)
    app.connect("autodoc-process-signature", readable_signature)
    app.connect("build-finished", make_accessible)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
