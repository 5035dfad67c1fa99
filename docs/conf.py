"""Sphinx configuration; `tox -e docs` builds the pages and fetches nothing.

SKLEARN_SPT_INTERSPHINX=1 turns names of other projects into links; it needs the network.
"""

import os
import re

os.environ.setdefault("MPLBACKEND", "Agg")
os.environ.setdefault("HF_HUB_OFFLINE", "1")

from docutils import nodes
from docutils.utils.math.latex2mathml import tex2mathml
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
    "write_computation_times": False,
    "thumbnail_size": (480, 320),
}
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True

html_static_path = ["_static"]
html_css_files = ["site.css"]
html_theme = "pydata_sphinx_theme"
html_title = f"sklearn_spt {release}"
html_theme_options = {
    "navigation_with_keys": False,
    "show_toc_level": 2,
    # pages of the gallery have none: their lines of 100 columns need the place
    "secondary_sidebar_items": {
        f"{folder}*": ["page-toc"] for folder in ("", "guide/", "generated/")
    },
}
# pages without pages below them: an empty column would only narrow their tables and code
html_sidebars = {"index": [], "changes": []}
html_show_sourcelink = False
html_math_renderer = "mathml"  # browsers draw it; MathJax would come from the internet


def link_to_module(app, env, node, contnode):
    """Find a name that a docstring uses without its module."""
    domain, name = env.domains["py"], node.get("reftarget")
    for module in ("", ".model_selection", ".inspection", ".datasets", ".baselines"):
        full = f"sklearn_spt{module}.{name}"
        if node.get("reftype") == "obj" and full in domain.objects:
            here = node["refdoc"], app.builder, "obj", full, node, contnode
            return domain.resolve_xref(env, *here)
    return None


def change_docstring(app, what, name, obj, options, lines):
    """Use the comment above a setting as its docstring; an initial in a reference is no list."""
    lines[:] = [re.sub(r"^(\s*\.\. \[.+?\] [A-Z])\.", r"\1\\.", line) for line in lines]
    if what == "data":
        comments = ModuleAnalyzer.for_module("sklearn_spt._presets").find_attr_docs()
        lines[:] = comments.get(("", name.split(".")[-1]), lines)


def write_math(self, node):
    """Write a formula as MathML."""
    self.body.append(tex2mathml(node.astext(), as_block=isinstance(node, nodes.math_block)))
    raise nodes.SkipNode


def setup(app):
    """Connect these functions."""
    app.add_html_math_renderer("mathml", (write_math, None), (write_math, None))
    app.connect("missing-reference", link_to_module)
    app.connect("autodoc-process-docstring", change_docstring)
