"""Make the long description of the package from README.md.

A page of a package index is no repository: a relative link or picture would lead nowhere there. So
they lead to the address `Source` of [project.urls]. While there is none, links into the repository
become plain words, and pictures of it are left out.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface


def for_index_page(markdown: str, source: str | None = None) -> str:
    """Return the text without relative links and pictures; with a source, they lead there."""
    text = re.sub(r"\[([^\]]+)\]\(#[^)]*\)", r"\1", markdown)  # such a page has no anchors
    if source is None:
        text = re.sub(r"<img\s[^>]*>\s*", "", text)
        return re.sub(r"\[([^\]]+)\]\((?!https?://|mailto:)[^)\s]+\)", r"\1", text)
    text = re.sub(r'(<img\s+src=")(?!https?://)', rf"\1{source}/raw/main/", text)
    return re.sub(r"(\]\()(?!https?://|mailto:)", rf"\1{source}/blob/main/", text)


class ReadmeHook(MetadataHookInterface):
    """Sets ``readme``, which pyproject.toml calls dynamic."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Add the text of README.md."""
        text = (Path(self.root) / "README.md").read_text(encoding="utf-8")
        text = for_index_page(text, metadata.get("urls", {}).get("Source"))
        metadata["readme"] = {"content-type": "text/markdown", "text": text}
