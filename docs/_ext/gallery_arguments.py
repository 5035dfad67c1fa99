"""Arguments of the programs that the gallery runs."""

from typing import Any


def arguments(gallery_conf: dict[str, Any], script_vars: dict[str, Any]) -> list[str]:
    """Keep the quickstart from looking for data, so that its page is the same everywhere."""
    return ["--made-up"] if script_vars["src_file"].endswith("01_quickstart.py") else []
