"""Sphinx configuration. `tox -e docs` builds the pages; nothing is fetched while it does.

The gallery runs the programs of examples/. SKLEARN_SPT_INTERSPHINX=1 also fetches the inventories
of other projects, so that their names become links; it needs the network. SKLEARN_SPT_MATHJAX
names the folder of the package of MathJax 3, which the site then holds; else readers fetch it.
"""

import os
import sys
from pathlib import Path

os.environ.setdefault("MPLBACKEND", "Agg")
os.environ.setdefault("HF_HUB_OFFLINE", "1")
sys.path.insert(0, str(Path(__file__).parent / "_ext"))

import sklearn_spt

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
    "sphinx.ext.viewcode",
    "sphinx_copybutton",
    "sphinx_design",
    "sphinx_gallery.gen_gallery",
]
exclude_patterns = ["_build"]
templates_path = ["_templates"]

if os.environ.get("SKLEARN_SPT_INTERSPHINX"):
    extensions.append("sphinx.ext.intersphinx")
    intersphinx_mapping = {
        "numpy": ("https://numpy.org/doc/stable", None),
        "python": ("https://docs.python.org/3", None),
        "sklearn": ("https://scikit-learn.org/stable", None),
        "skorch": ("https://skorch.readthedocs.io/en/stable", None),
        "torch": ("https://docs.pytorch.org/docs/stable", None),
    }

autosummary_generate = True
autodoc_typehints = "none"  # the numpydoc sections name the types
numpydoc_show_class_members = False  # _templates/autosummary/class.rst chooses the methods

myst_enable_extensions = ["colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 3

sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "gallery",
    "filename_pattern": r"[\\/]\d\d_\w+\.py$",
    "within_subsection_order": "FileNameSortKey",
    "reset_argv": "gallery_arguments.arguments",
    "backreferences_dir": "generated/backreferences",
    "doc_module": ("sklearn_spt",),
    "image_scrapers": ("matplotlib",),
    "capture_repr": (),  # what a page shows, it prints
    "show_memory": False,
    "remove_config_comments": True,
}
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True

html_static_path = ["_static"]
html_css_files = ["site.css"]
if mathjax := os.environ.get("SKLEARN_SPT_MATHJAX"):
    html_static_path.append(f"{mathjax}/es5/tex-svg.js")
    mathjax_path = "tex-svg.js"
html_theme = "pydata_sphinx_theme"
html_title = f"sklearn_spt {release}"
html_theme_options = {
    "header_links_before_dropdown": 4,
    "navigation_with_keys": False,
    "show_toc_level": 2,
}
# Pages without pages below them: an empty column would only narrow their tables and code.
html_sidebars = {
    name: []
    for name in (
        *("index", "saving", "command_line", "nets", "reliability", "gpu"),
        *("experiments", "departures", "changes"),
    )
}
html_show_sourcelink = False
toc_object_entries_show_parents = "hide"
