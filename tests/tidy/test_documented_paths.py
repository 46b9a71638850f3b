"""Paths of the repository that documents name exist."""

import re
from pathlib import Path

import pytest

from rhumbline.tests.support.tidy import source_tree
from rhumbline.tests.support.tidy.source_tree import ROOT

TOPS = {path.parts[0] for path in source_tree.files() if len(path.parts) > 1}
NAMED = re.compile(r"`([\w.-]+(?:/[\w.-]+)*/?)`")


def missing_paths(text: str) -> list[str]:
    """The paths in backticks that begin with a folder of the repository and lead nowhere."""
    named = [name for name in NAMED.findall(text) if name.split("/")[0] in TOPS and "/" in name]
    return [name for name in named if not (ROOT / name).exists() and not _is_module(name)]


def _is_module(name: str) -> bool:
    return (ROOT / f"{name}.py").exists()


def test_missing_paths_are_seen() -> None:
    assert missing_paths("see `core/nothing.py` and `core/protocol/quorum.py`") == [
        "core/nothing.py"
    ]


@pytest.mark.parametrize("document", source_tree.markdown_files(), ids=str)
def test_named_paths_exist(document: Path) -> None:
    assert missing_paths((ROOT / document).read_text()) == []
