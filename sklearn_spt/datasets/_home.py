"""Where data sets lie on this machine."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

ENVIRONMENT = "SKLEARN_SPT_DATA"
DOWNLOADS = "sklearn_spt_downloads"


def locate_data_home(data_home: str | os.PathLike[str] | None = None) -> Path:
    """Return the data home without creating it; it may be read-only."""
    if data_home is None:
        data_home = os.environ.get(ENVIRONMENT) or Path("~", "sklearn_spt_data")
    elif not isinstance(data_home, str | os.PathLike):
        raise TypeError(f"data_home must be a path or None, got {data_home!r}.")
    return Path(data_home).expanduser()


def get_data_home(data_home: str | os.PathLike[str] | None = None) -> str:
    """Return the path of the data home, and create the folder if there is none.

    Parameters
    ----------
    data_home : str or path-like, default=None
        The folder. None means the environment variable ``SKLEARN_SPT_DATA``, or, where that is
        not set, ``~/sklearn_spt_data``. ``~`` stands for the user's home.

    Returns
    -------
    data_home : str
        Path of the folder.
    """
    home = locate_data_home(data_home)
    home.mkdir(parents=True, exist_ok=True)
    return str(home)


def clear_data_home(data_home: str | os.PathLike[str] | None = None) -> None:
    """Delete what the ``fetch_*`` functions have downloaded.

    Unlike scikit-learn's function of this name, it keeps all other files, since the data home is
    also the place for your own files. An empty folder is removed.

    Parameters
    ----------
    data_home : str or path-like, default=None
        The folder, found as by :func:`get_data_home`.
    """
    home = locate_data_home(data_home)
    downloads = home / DOWNLOADS
    if downloads.is_dir():
        shutil.rmtree(downloads)
    if home.is_dir() and not any(home.iterdir()):
        home.rmdir()
