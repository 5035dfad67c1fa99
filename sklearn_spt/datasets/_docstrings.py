"""Paragraphs that the docstrings of the loaders have in common."""

from __future__ import annotations

import inspect
import re
import textwrap
from collections.abc import Callable
from typing import Any, TypeVar

Loader = TypeVar("Loader", bound=Callable[..., Any])

_RETURN_X_Y = """\
return_X_y : bool, default=False
    If True, return ``(data, target)`` instead of a Bunch."""

_TUPLE = """\
(data, target) : tuple
    If `return_X_y` is True."""

_FETCH_ERRORS = f"""\
{_TUPLE}

Raises
------
OSError
    A file is damaged, is missing while `download_if_missing` is False, or cannot be downloaded or
    saved."""

_PARAGRAPHS = {
    "return_X_y": _RETURN_X_Y,
    "fetch_parameters": f"""\
data_home : str or path-like, default=None
    Folder of the data sets; see :func:`get_data_home`.

download_if_missing : bool, default=True
    If False, a missing file is an OSError.

{_RETURN_X_Y}""",
    "load_parameters": f"""\
data_home : str or path-like, default=None
    Folder of the data sets; see :func:`get_data_home`. Only used if `path` is None.

{_RETURN_X_Y}""",
    "returns": """\
Returns
-------
dataset : :class:`~sklearn.utils.Bunch`
    data : ndarray of shape (n_samples,), dtype object
        The texts, each a str.""",
    # the last results, and the errors
    "given_file": f"""\
    filename : str
        Path of the file.
{_TUPLE}""",
    "one_file": f"""\
    DESCR : str
        Description, licence and reference.
    filename : str
        Path of the file that was read.
    sha256 : str
        Its checksum.
{_FETCH_ERRORS}""",
    "several_files": f"""\
    DESCR : str
        Description, licence and reference.
    filenames : list of str
        Paths of the files that were read, in their order.
    sha256 : list of str
        Their checksums.
{_FETCH_ERRORS}""",
    "own_files": f"""\
    ids : ndarray of shape (n_samples,), dtype object
        Number of the tweet, a str.
    DESCR : str
        Description, terms and references.
    filenames : list of str
        Paths of the files that were read.
{_TUPLE}

Raises
------
FileNotFoundError
    A file is missing.""",
}


def with_shared_paragraphs(load: Loader) -> Loader:
    """Replace each line ``%(name)s`` of a docstring by the paragraph of that name."""
    if load.__doc__:  # there is none under python -OO
        load.__doc__ = re.sub(
            r"^( *)%\((\w+)\)s$",
            lambda found: textwrap.indent(_PARAGRAPHS[found[2]], found[1]),
            inspect.cleandoc(load.__doc__),
            flags=re.MULTILINE,
        )
    return load
