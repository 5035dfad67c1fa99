"""Arguments of the programs that the gallery runs."""

from pathlib import Path
from typing import Any

ARGUMENTS = {
    "01_quickstart": "--made-up",  # looks for no data, so that its page is the same everywhere
    "08_save_and_serve": "--n-labeled 60 --n-unlabeled 120 --n-test 200",  # ends sooner
}


def arguments(gallery_conf: dict[str, Any], script_vars: dict[str, Any]) -> list[str]:
    """Return what follows the name of a program on its command line."""
    return ARGUMENTS.get(Path(script_vars["src_file"]).stem, "").split()
