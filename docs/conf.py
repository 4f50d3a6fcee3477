"""How the site is built: `make docs`. Pages are Markdown, the gallery is executed, nothing is loaded from elsewhere."""

import sys
from pathlib import Path

import aceirl

sys.path.insert(0, str(Path(__file__).parent))

project = "aceirl"
author = copyright = "The aceirl authors"
release = version = aceirl.__version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx_gallery.gen_gallery", "extension"]
exclude_patterns = ["examples"]

html_theme = "furo"
html_title = "aceirl"
html_static_path = ["static"]
html_css_files = ["site.css"]
html_show_sourcelink = False
html_copy_source = False
html_math_renderer = "mathml"
pygments_style = "a11y-high-contrast-light"
pygments_dark_style = "a11y-high-contrast-dark"
html_theme_options = {
    "light_css_variables": {"color-brand-primary": "#0b5d75", "color-brand-content": "#0b5d75"},
    "dark_css_variables": {"color-brand-primary": "#7cc7dd", "color-brand-content": "#7cc7dd"},
}

myst_enable_extensions = ["dollarmath"]
myst_heading_anchors = 4

default_role = "code"  # docstrings write code in single backquotes
autodoc_default_options = {"members": True, "no-value": True}
autodoc_type_aliases = {name: name for name in ("FloatArray", "IntArray", "BoolArray", "ArrayLike")}
autodoc_member_order = "bysource"
autodoc_typehints_format = "short"
autodoc_preserve_defaults = True
python_use_unqualified_type_names = True

# The examples are executed when the site is built; one that has not changed since is not executed again.
sphinx_gallery_conf = {
    "examples_dirs": "examples",
    "gallery_dirs": "gallery",
    "filename_pattern": r"\.py$",
    "within_subsection_order": "FileNameSortKey",
    "abort_on_example_error": True,
    "download_all_examples": False,
    "parallel": True,  # as many at once as -j says
    "show_memory": False,
    "show_signature": False,
    "min_reported_time": 0,
    "write_computation_times": False,
    "image_scrapers": ("extension.figure_scraper",),
    "thumbnail_size": (400, 280),
}
