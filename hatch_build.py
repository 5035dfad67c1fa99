"""Make the long description of the package from README.md.

A page of a package index is no repository: a relative link or picture would lead nowhere there. So
links into the repository become plain words, and pictures of it are left out.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface


def for_index_page(markdown: str) -> str:
    """Return the text without relative links and pictures."""
    local = r"(?!https?://|#|mailto:)[^)\s]+"
    text = re.sub(r"<img\s[^>]*>\s*", "", markdown)
    return re.sub(rf"\[([^\]]+)\]\({local}\)", r"\1", text)


class ReadmeHook(MetadataHookInterface):
    """Sets ``readme``, which pyproject.toml calls dynamic."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Add the text of README.md."""
        text = (Path(self.root) / "README.md").read_text(encoding="utf-8")
        metadata["readme"] = {"content-type": "text/markdown", "text": for_index_page(text)}
