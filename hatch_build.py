"""Make the long description of the package from README.md.

A page of a package index is no repository: a relative link or picture would lead nowhere there.
With an address `Source` in [project.urls], links and pictures lead into the repository. Without
one, the links become plain words, and the pictures are left out.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface


def for_index_page(markdown: str, source: str | None = None) -> str:
    """Return the text with relative links and pictures that lead to `source`, or without them."""
    text = re.sub(r"\[([^\]]+)\]\(#[^)]*\)", r"\1", markdown)  # such a page has no anchors
    if source is None:
        text = re.sub(r"<img\s[^>]*>\s*", "", text)
        return re.sub(r"\[([^\]]+)\]\((?!https?://|mailto:)[^)\s]+\)", r"\1", text)
    source = source.rstrip("/")
    text = re.sub(r'(<img\s[^>]*src=")(?!https?://)', rf"\1{source}/raw/main/", text)
    parts = re.split(r"(^```.*?^```$|`[^`\n]+`(?!\]))", text, flags=re.M | re.S)  # code stays
    link = r"(\[[^\]]+\]\()(?!https?://|mailto:)"
    parts[::2] = [re.sub(link, rf"\1{source}/blob/main/", part) for part in parts[::2]]
    return "".join(parts)


class ReadmeHook(MetadataHookInterface):
    """Sets ``readme``, which pyproject.toml calls dynamic."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Add the text of README.md."""
        text = (Path(self.root) / "README.md").read_text(encoding="utf-8")
        text = for_index_page(text, metadata.get("urls", {}).get("Source"))
        metadata["readme"] = {"content-type": "text/markdown", "text": text}
