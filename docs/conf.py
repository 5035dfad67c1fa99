"""Sphinx configuration; `tox -e docs` builds the pages and fetches nothing.

SKLEARN_SPT_INTERSPHINX=1 turns names of other projects into links; it needs the network.
"""

import os

os.environ.setdefault("MPLBACKEND", "Agg")
os.environ.setdefault("HF_HUB_OFFLINE", "1")

from sphinx.pycode import ModuleAnalyzer

import sklearn_spt

project = "sklearn_spt"
author = "The sklearn_spt developers"
copyright = f"2026, {author}"
release = version = sklearn_spt.__version__

extensions = [
    "myst_parser",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.mathjax",
    "sphinx_copybutton",
    "sphinx_design",
    "sphinx_gallery.gen_gallery",
]
exclude_patterns = ["_build"]
templates_path = ["_templates"]
default_role = "py:obj"  # names in docstrings are links where they can be

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
add_module_names = False
toc_object_entries_show_parents = "hide"

myst_enable_extensions = ["colon_fence", "dollarmath"]
myst_heading_anchors = 3

sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "gallery",
    "filename_pattern": r"[\\/]\d\d_\w+\.py$",
    "ignore_pattern": r"(server|speed)\.py",
    "within_subsection_order": "FileNameSortKey",
    "backreferences_dir": "generated/backreferences",
    "doc_module": ("sklearn_spt",),
    "capture_repr": (),  # what a page shows, it prints
    "show_memory": False,
}
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True

html_static_path = ["_static"]
html_css_files = ["site.css"]
html_theme = "pydata_sphinx_theme"
html_title = f"sklearn_spt {release}"
html_theme_options = {"navigation_with_keys": False, "show_toc_level": 2}
# pages without pages below them: an empty column would only narrow their tables and code
html_sidebars = {"index": [], "changes": []}
html_show_sourcelink = False


def link_to_module(app, env, node, contnode):
    """Find a name that a docstring uses without its module."""
    domain, name = env.domains["py"], node.get("reftarget")
    for module in ("", ".model_selection", ".inspection", ".datasets", ".baselines"):
        full = f"sklearn_spt{module}.{name}"
        if node.get("reftype") == "obj" and full in domain.objects:
            here = node["refdoc"], app.builder, "obj", full, node, contnode
            return domain.resolve_xref(env, *here)
    return None


def describe_setting(app, what, name, obj, options, lines):
    """Use the comment above a setting as its docstring."""
    if what == "data":
        comments = ModuleAnalyzer.for_module("sklearn_spt._presets").find_attr_docs()
        lines[:] = comments.get(("", name.split(".")[-1]), lines)


def setup(app):
    """Connect both functions."""
    app.connect("missing-reference", link_to_module)
    app.connect("autodoc-process-docstring", describe_setting)
