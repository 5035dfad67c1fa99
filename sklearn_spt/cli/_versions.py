"""What is installed, for reports of errors."""

from __future__ import annotations

import platform
import re
import sys
from importlib.metadata import PackageNotFoundError, requires, version


def show_versions() -> None:
    """Print the versions of Python and of the packages, and what torch computes with.

    Paste the output into a report of an error. It names no file and no text.

    Examples
    --------
    >>> import sklearn_spt
    >>> sklearn_spt.show_versions()  # doctest: +SKIP
    """
    import torch

    cuda = torch.cuda.is_available()
    found = {
        "python": sys.version.split()[0],
        "platform": platform.platform(),
        "sklearn-spt": version("sklearn-spt"),
        **_packages(optional=False),
        **_packages(optional=True),
        "torch threads": str(torch.get_num_threads()),
        "torch on the CPU": torch.backends.cpu.get_cpu_capability(),
        "torch on a GPU": torch.cuda.get_device_name() if cuda else "none",
    }
    width = max(map(len, found))
    for name, value in found.items():
        print(f"{name:>{width}}: {value}")


def _packages(*, optional: bool) -> dict[str, str]:
    """Return the versions of the packages that are needed, or of the installed optional ones."""
    found = {}
    for requirement in requires("sklearn-spt") or ():
        match = re.match(r"[\w.-]+", requirement)
        if match and ("extra ==" in requirement) == optional:
            try:
                found[match[0]] = version(match[0])
            except PackageNotFoundError:
                continue
    return dict(sorted(found.items()))
