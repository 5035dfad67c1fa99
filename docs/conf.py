"""Sphinx configuration. `tox -e docs` builds the pages; nothing is fetched while it does."""

import sys
from pathlib import Path

import sklearn_spt

sys.path.insert(0, str(Path(__file__).parent / "_ext"))

project = "sklearn_spt"
author = "The sklearn_spt developers"
copyright = f"2026, {author}"
release = sklearn_spt.__version__
version = release

extensions = [
    "myst_parser",
    "numpydoc",
    "record_tables",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
]
exclude_patterns = ["_build"]
templates_path = ["_templates"]

autosummary_generate = True
autodoc_typehints = "none"  # the numpydoc sections name the types
numpydoc_show_class_members = False  # _templates/autosummary/class.rst chooses the methods

myst_enable_extensions = ["colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 3

html_static_path = ["_static"]
html_css_files = ["tables.css"]
html_theme = "pydata_sphinx_theme"
html_title = f"sklearn_spt {release}"
html_theme_options = {
    "navigation_with_keys": False,
    "show_toc_level": 2,
}
# Pages without pages below them: an empty column would only narrow their tables and code.
html_sidebars = {name: [] for name in ("user_guide", "nets", "results", "departures")}
html_show_sourcelink = False
toc_object_entries_show_parents = "hide"
