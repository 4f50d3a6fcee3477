"""What the site needs beyond Sphinx and its extensions: links into the gallery, formulas as MathML, pictures of examples."""

from __future__ import annotations

import re
from collections.abc import Callable
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
    source[0] = EXAMPLE.sub(rf"]({'../' * page.count('/')}gallery/\1.rst)", source[0])


def repository_links(app: Sphinx, page: str, source: list[str]) -> None:
    """What lies beside the docs in the repository is no page of the site: the words stay, the link goes."""
    source[0] = re.sub(r"\[([^\]]+)\]\(\.\./[A-Z]+\.(?:md|cff)\)", r"\1", source[0])


def written_once(app: Sphinx, kind: str, name: str, value: Any, skip: bool, options: Any) -> bool | None:
    """What the package itself offers is described there, and not again where it was made."""
    return True if name in ROOT_NAMES and getattr(aceirl, name, None) is value else None


def literal_blocks(app: Sphinx, kind: str, name: str, value: Any, options: Any, lines: list[str]) -> None:
    """Formulas are indented after a colon, as in Markdown; reStructuredText wants two colons for that."""
    for i, line in enumerate(lines[:-2]):
        if line.endswith(":") and not line.endswith("::") and not lines[i + 1] and lines[i + 2].startswith("    "):
            lines[i] = line + ":"


def mathml(display: str) -> Callable[[Any, nodes.Element], None]:
    """Writes a formula as MathML, which browsers draw by themselves."""

    def visit(translator: Any, node: nodes.Element) -> None:
        text = latex2mathml.converter.convert(node.astext(), display=display)
        translator.body.append(text if display == "inline" else f'<div class="math">{text}</div>')
        raise nodes.SkipNode

    return visit


def figure_scraper(block: Any, variables: dict[str, Any], settings: dict[str, Any]) -> str:
    """Keeps the figure that an example calls `figure`, whether pyplot knows of it or not."""
    names = variables["example_globals"]
    figure = names.pop("figure", None)
    if figure is None:
        return ""
    path = next(variables["image_path_iterator"])
    figure.savefig(path, dpi=110, bbox_inches="tight", facecolor="white")
    title = names["__doc__"].strip().splitlines()[0]
    return str(figure_rst([path], settings["src_dir"], f"{title}: the picture that this example draws"))


def setup(app: Sphinx) -> dict[str, Any]:
    app.add_html_math_renderer("mathml", (mathml("inline"), None), (mathml("block"), None))
    app.connect("source-read", gallery_links)
    app.connect("source-read", repository_links)
    app.connect("autodoc-skip-member", written_once)
    app.connect("autodoc-process-docstring", literal_blocks)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
