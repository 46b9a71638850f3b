"""The names of an archive's objects below the root of a cold store (rule ARC-20).

A stream has two folders. The folder of its records holds part files only, so that every Parquet
tool opens it as it is. The folder of its chain holds the manifests and the tip of the chain. The
names of both contain the ``stream_id``, so the archives of streams that had the same name at
different times lie side by side::

    <namespace>/<stream>/<stream id>/segment-<lssn>-<number>-<attempt>.parquet
    <namespace>/<stream>/_chain/<stream id>/manifest-<lssn>.json
    <namespace>/<stream>/_chain/<stream id>/tip/<last lssn>-<first lssn>[-<erasure>].json

Compaction adds files that hold the records of several segments, and the relocations that say so. It
writes each file to a folder of its own first, where no tool sees it beside the parts that it
replaces::

    <namespace>/<stream>/_staged/<stream id>/staged-<first lssn>-<last lssn>-<attempt>.parquet
    <namespace>/<stream>/<stream id>/merged-<first lssn>-<last lssn>-<attempt>.parquet
    <namespace>/<stream>/_chain/<stream id>/moved/<number>.json
"""

import re
from typing import NamedTuple

_CHAIN, _STAGED = "_chain", "_staged"
"""They begin with ``_``: tools that open a folder ignore such names. No stream id does."""
_PART = re.compile(r"segment-(\d{19})-\d{5}-[0-9a-f]{16}\.parquet")
_MANIFEST = re.compile(r"manifest-(\d{19})\.json")
_TIP = re.compile(r"(\d{19})-(\d{19})(?:-(\d{19}))?\.json")
_MERGED = re.compile(r"(staged|merged)-(\d{19})-(\d{19})-([0-9a-f]{11})([0-9a-f]{5})\.parquet")
_RELOCATION = re.compile(r"moved/(\d{19})\.json")


class TipName(NamedTuple):
    """The numbers in the name of a chain's tip."""

    last_lssn: int
    first_lssn: int
    erasure: int = 0
    """The newest relocation that erased records; 0, which the name leaves out: none did."""

    def __str__(self) -> str:
        erasure = f"-{self.erasure:019d}" if self.erasure else ""
        return f"{self.last_lssn:019d}-{self.first_lssn:019d}{erasure}.json"

    @classmethod
    def parse(cls, name: str) -> "TipName | None":
        """Return the numbers, or None if it is not the name of a tip."""
        match = _TIP.fullmatch(name)
        return None if match is None else cls(int(match[1]), int(match[2]), int(match[3] or 0))


class MergedName(NamedTuple):
    """The name of a file with the records of several segments."""

    is_staged: bool
    """True if the file lies outside of the folder that tools open."""
    first_lssn: int
    last_lssn: int
    created_ms: int
    """When the name was given; with ``random``, no two files have the same name."""
    random: int

    def __str__(self) -> str:
        kind = "staged" if self.is_staged else "merged"
        attempt = f"{self.created_ms:011x}{self.random:05x}"
        return f"{kind}-{self.first_lssn:019d}-{self.last_lssn:019d}-{attempt}.parquet"

    @classmethod
    def parse(cls, name: str) -> "MergedName | None":
        """Return the parts of a name, or None if it is not the name of such a file."""
        match = _MERGED.fullmatch(name)
        if match is None:
            return None
        numbers = int(match[2]), int(match[3]), int(match[4], 16), int(match[5], 16)
        return cls(match[1] == "staged", *numbers)


class ArchiveFolder(NamedTuple):
    """The place of one stream's archive."""

    namespace: str
    stream: str
    stream_id: str
    """The first characters of the stream's identity."""

    @property
    def records(self) -> str:
        """The folder of the part files."""
        return f"{self.namespace}/{self.stream}/{self.stream_id}"

    @property
    def chain(self) -> str:
        """The folder of the manifests, and of the folder of tips."""
        return f"{chains_of(self.namespace, self.stream)}/{self.stream_id}"

    @property
    def tips(self) -> str:
        """The folder of the tips of the chain."""
        return f"{self.chain}/tip"

    def tip(self, name: TipName) -> str:
        """Return the key of a tip."""
        return f"{self.tips}/{name}"

    @property
    def staged(self) -> str:
        """The folder of files that compaction has written and that tools do not see yet."""
        return f"{self.namespace}/{self.stream}/{_STAGED}/{self.stream_id}"

    @property
    def relocations(self) -> str:
        """The folder of the relocations."""
        return f"{self.chain}/moved"

    def part(self, name: str) -> str:
        """Return the key of a part, or of a file with the parts of several segments."""
        merged = MergedName.parse(name)
        folder = self.staged if merged is not None and merged.is_staged else self.records
        return f"{folder}/{name}"

    def relocation(self, number: int) -> str:
        """Return the key of a relocation."""
        return f"{self.relocations}/{number:019d}.json"

    def manifest(self, lssn: int) -> str:
        """Return the key of a segment's manifest."""
        return f"{self.chain}/manifest-{lssn:019d}.json"


class ChainKey(NamedTuple):
    """A key in the folder of a chain, taken apart."""

    folder: ArchiveFolder
    name: str
    """Below the folder of the chain."""

    @property
    def lssn(self) -> int | None:
        """The segment whose manifest it is, or None if the name is not that of a manifest."""
        match = _MANIFEST.fullmatch(self.name)
        return None if match is None else int(match[1])

    @property
    def tip(self) -> TipName | None:
        """The numbers of the tip that it is, or None if the name is not that of a tip."""
        return TipName.parse(self.name[4:]) if self.name.startswith("tip/") else None

    @property
    def relocation(self) -> int | None:
        """The number of the relocation that it is, or None if it is none."""
        match = _RELOCATION.fullmatch(self.name)
        return None if match is None else int(match[1])


def chains_of(namespace: str, stream: str) -> str:
    """Return the folder with the chains of all streams that had this name."""
    return f"{namespace}/{stream}/{_CHAIN}"


def part_name(lssn: int, number: int, attempt: str) -> str:
    """Return the name of part ``number`` of a segment; ``attempt`` is 16 random hex digits."""
    return f"segment-{lssn:019d}-{number:05d}-{attempt}.parquet"


def lssn_of_part(name: str) -> int | None:
    """Return the segment of a part, or None if ``name`` is not the name of a part."""
    match = _PART.fullmatch(name)
    return None if match is None else int(match[1])


def last_lssn_of_file(name: str) -> int | None:
    """Return the last segment of which a file has records, or None for another file."""
    merged = MergedName.parse(name)
    return lssn_of_part(name) if merged is None else merged.last_lssn


def parse_chain_key(key: str) -> ChainKey | None:
    """Return the parts of a key in the folder of a chain; None for every other key."""
    parts = key.split("/", 4)
    if len(parts) != 5 or parts[2] != _CHAIN:
        return None
    return ChainKey(ArchiveFolder(parts[0], parts[1], parts[3]), parts[4])
