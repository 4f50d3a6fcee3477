"""How the site is built: `make docs`. Pages are Markdown, the gallery is executed, nothing is loaded from elsewhere."""

from __future__ import annotations

import re
import warnings
from typing import Any

import latex2mathml.converter
from sphinx.application import Sphinx
from sphinx_gallery.sorting import FileNameSortKey

import aceirl

project = "aceirl"
author = "The aceirl authors"
copyright = author
release = version = aceirl.__version__

extensions = ["myst_parser", "sphinx.ext.autodoc"]
exclude_patterns = ["_build", "examples/*.ipynb", "examples/README.md"]
html_theme = "furo"
html_title = "aceirl"
html_static_path = ["static"]
html_css_files = ["site.css"]
html_show_sourcelink = False
html_copy_source = False
pygments_style = "a11y-high-contrast-light"
pygments_dark_style = "a11y-high-contrast-dark"
html_theme_options = {
    "light_css_variables": {"color-brand-primary": "#0b5d75", "color-brand-content": "#0b5d75"},
    "dark_css_variables": {"color-brand-primary": "#7cc7dd", "color-brand-content": "#7cc7dd"},
}

myst_enable_extensions = ["dollarmath", "deflist"]
myst_heading_anchors = 4
myst_links_external_new_tab = False
nitpicky = False

# Docstrings write code in single backquotes.
default_role = "code"
autodoc_default_options = {"members": True, "show-inheritance": False}
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_typehints_format = "short"
autodoc_preserve_defaults = True
python_use_unqualified_type_names = True
maximum_signature_line_length = 88

sphinx_gallery_conf = {
    "examples_dirs": "examples",
    "gallery_dirs": "gallery",
    "filename_pattern": r"\.py$",
    "ignore_pattern": r"/_",
    "within_subsection_order": FileNameSortKey,
    "abort_on_example_error": True,
    "download_all_examples": False,
    "remove_config_comments": True,
    "show_memory": False,
    "show_signature": False,
    "min_reported_time": 0,
    "write_computation_times": False,
    "plot_gallery": True,
    "matplotlib_animations": False,
    "image_scrapers": ("matplotlib",),
    "thumbnail_size": (400, 280),
}
warnings.filterwarnings("ignore", message=".*FigureCanvasAgg is non-interactive.*")

ROOT_NAMES = set(aceirl.__all__)


def gallery_links(app: Sphinx, name: str, source: list[str]) -> None:
    """A link to an example's file, which a repository's site shows, leads to its page in the gallery."""
    up = "../" * name.count("/")
    source[0] = re.sub(r"\]\((?:\.\./)?examples/(\w+)\.py\)", rf"]({up}gallery/\1.rst)", source[0])


def written_once(app: Sphinx, kind: str, name: str, value: Any, skip: bool, options: Any) -> bool | None:
    """What the package itself offers is described there, and not again where it was made."""
    return True if name in ROOT_NAMES and getattr(aceirl, name, None) is value else None


def literal_blocks(app: Sphinx, kind: str, name: str, value: Any, options: Any, lines: list[str]) -> None:
    """Formulas are indented after a colon, as in Markdown; reStructuredText wants two colons for that."""
    for i, line in enumerate(lines[:-2]):
        if line.endswith(":") and not line.endswith("::") and not lines[i + 1] and lines[i + 2].startswith("    "):
            lines[i] = line + ":"


def mathml(display: str) -> Any:
    def visit(self: Any, node: Any) -> None:
        from docutils import nodes

        text = latex2mathml.converter.convert(node.astext(), display=display)
        self.body.append(text if display == "inline" else f'<div class="math">{text}</div>')
        raise nodes.SkipNode

    return visit


def setup(app: Sphinx) -> None:
    app.add_html_math_renderer("mathml", (mathml("inline"), None), (mathml("block"), None))
    app.connect("source-read", gallery_links)
    app.connect("autodoc-skip-member", written_once)
    app.connect("autodoc-process-docstring", literal_blocks)


html_math_renderer = "mathml"
