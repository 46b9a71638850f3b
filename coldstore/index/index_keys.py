"""The names of the objects of a namespace's index (rule ARC-44).

They are below a folder that no namespace can have, because names do not begin with a dot::

    .index/<namespace>/head/<generation>.json
    .index/<namespace>/pack/<generation>-<sha256>
    .index/<namespace>/changed/<stream>/<stream id>/<tip>[-<token>]
    .index/<namespace>/noted/<stream>/<stream id>/<tip>[-<token>]

``<tip>`` stands for the numbers in the name of the chain's tip: last and first segment, erasure.

A generation is a version of the index. Its head is created only if absent, so exactly one of
several writers succeeds, and the head with the highest generation is the index. A pack is named by
its content and by the generation that it was written for. A note of a change consists of two
objects, because nothing else would show that it was lost.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from ..archive.archive_folder import ArchiveFolder, TipName

INDEXES = ".index"
_HEAD = re.compile(r"head/(\d{19})\.json")
_PACK = re.compile(r"pack/(\d{19})-([0-9a-f]{64})")
_CHANGED, _NOTED = "changed", "noted"
_CHANGE = re.compile(
    rf"(?:{_CHANGED}|{_NOTED})/([^/]+)/([^/]+)/([\d-]{{39,59}}?)(?:-([0-9a-f]{{16}}))?"
)


class PackName(NamedTuple):
    """The name of a pack."""

    generation: int
    sha256: str

    def __str__(self) -> str:
        return f"{self.generation:019d}-{self.sha256}"

    @classmethod
    def parse(cls, name: str) -> "PackName | None":
        """Return the name taken apart, or None if it is not that of a pack."""
        match = _PACK.fullmatch(f"pack/{name}")
        return None if match is None else cls(int(match[1]), match[2])


class ChainChange(NamedTuple):
    """A note that a chain has changed."""

    folder: ArchiveFolder
    tip: TipName
    """The numbers of the chain's tip after the change."""
    token: str
    """Empty if the chain became longer or shorter; otherwise 16 random hex digits: manifests were
    replaced by others of the same segments."""

    @property
    def name(self) -> str:
        """The name of the first object of the note, below the folder of an index."""
        return f"{_CHANGED}/{self._name}"

    @property
    def names(self) -> tuple[str, str]:
        """The names of both objects of the note, below the folder of an index."""
        return self.name, f"{_NOTED}/{self._name}"

    @property
    def _name(self) -> str:
        numbers = str(self.tip).removesuffix(".json")
        suffix = f"-{self.token}" if self.token else ""
        return f"{self.folder.stream}/{self.folder.stream_id}/{numbers}{suffix}"

    @classmethod
    def parse(cls, namespace: str, name: str) -> "ChainChange | None":
        """Return the change with the name of an object, or None if it is not that of a note."""
        match = _CHANGE.fullmatch(name)
        tip = None if match is None else TipName.parse(f"{match[3]}.json")
        if match is None or tip is None:
            return None
        return cls(ArchiveFolder(namespace, match[1], match[2]), tip, match[4] or "")


@dataclass(slots=True)
class ListedIndex:
    """The objects of an index according to a listing."""

    heads: list[int] = field(default_factory=list)
    """Generations, ascending."""
    packs: list[PackName] = field(default_factory=list)
    changes: dict[str, ChainChange] = field(default_factory=dict)
    """By name. One of the two objects of a note is enough."""
    incomplete: set[str] = field(default_factory=set)
    """Names of the changes of whose note only one object exists."""
    others: list[str] = field(default_factory=list)
    """Keys with other names."""


def index_folder(namespace: str) -> str:
    """Return the folder of a namespace's index."""
    return f"{INDEXES}/{namespace}"


def head_key(namespace: str, generation: int) -> str:
    """Return the key of a head."""
    return f"{index_folder(namespace)}/head/{generation:019d}.json"


def pack_key(namespace: str, name: PackName) -> str:
    """Return the key of a pack."""
    return f"{index_folder(namespace)}/pack/{name}"


def change_keys(change: ChainChange) -> list[str]:
    """Return the keys of the two objects of a note."""
    return [f"{index_folder(change.folder.namespace)}/{name}" for name in change.names]


def parse_index(namespace: str, keys: Iterable[str]) -> ListedIndex:
    """Take the keys below the folder of an index apart."""
    found = ListedIndex()
    top = f"{index_folder(namespace)}/"
    for key in sorted(set(keys)):
        name = key.removeprefix(top)
        head, pack = _HEAD.fullmatch(name), PackName.parse(name.removeprefix("pack/"))
        change = ChainChange.parse(namespace, name)
        if head is not None:
            found.heads.append(int(head[1]))
        elif pack is not None and name.startswith("pack/"):
            found.packs.append(pack)
        elif change is not None:
            found.changes[change.name] = change
            found.incomplete ^= {change.name}
        else:
            found.others.append(key)
    return found
