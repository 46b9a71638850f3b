"""Reads the index of a namespace, and which chains have changed since (rules ARC-44 and ARC-45)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from ...core.protocol.errors import CorruptionError, NoSuchObjectError
from ...core.runtime.cold_store import OBJECT_BYTES_MAX, ColdStore
from ...core.runtime.tasks import for_each
from ..archive.archive_folder import ArchiveFolder
from ..archive.catalog import ListedChain
from .index_head import HEAD_BYTES_MAX, IndexHead, PackEntry
from .index_keys import (
    ChainChange,
    ListedIndex,
    PackName,
    head_key,
    index_folder,
    pack_key,
    parse_index,
)
from .merge import chains_in, joined
from .pack import PackedChain, decode_pack

_PACKS_AT_A_TIME = 8
_ATTEMPTS_MAX = 5


class ChainVersion(NamedTuple):
    """Equal as long as a chain has not changed."""

    generations: tuple[tuple[ArchiveFolder, int], ...]
    changes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class IndexedNamespace:
    """One generation of an index, and the changes that it lacks."""

    head: IndexHead
    listed: ListedIndex
    packs: dict[PackName, list[PackedChain]]
    chains: Mapping[ArchiveFolder, Sequence[PackedChain]]
    """The records of each chain, newest first."""
    streams: Mapping[str, Sequence[ArchiveFolder]]
    """The archives of each stream in the index, or with a change."""
    changes: dict[ArchiveFolder, list[ChainChange]] = field(default_factory=dict)
    """Changes that the index lacks."""

    @property
    def must_be_listed(self) -> set[str]:
        """Names of streams of which the index says nothing that can be used."""
        return {folder.stream for folder in self.head.unindexed}

    def version(self, stream: str) -> ChainVersion:
        """Return the version of a stream's archives."""
        folders = self.streams.get(stream, ())
        held = [(folder, self.chains[folder][0].version) for folder in folders
                if folder in self.chains]  # fmt: skip
        changes = [one.name for folder in folders for one in self.changes.get(folder, ())]
        return ChainVersion(tuple(sorted(held)), tuple(sorted(changes)))

    def chains_of(self, stream: str) -> dict[ArchiveFolder, ListedChain]:
        """Return the archives of a stream as ``StreamIndex.refresh`` takes them.

        Raises CorruptionError if a pack contradicts itself.
        """
        found = {}
        for folder in self.streams.get(stream, ()):
            records, changes = self.chains.get(folder, ()), self.changes.get(folder, ())
            record = joined(records) if records else None
            tip = None if record is None else record.tip
            if tip is None and not changes:
                continue
            manifests = {} if record is None else dict(record.manifests)
            erasure = 0 if tip is None else tip.erasure
            is_rewritten = any(one.token or one.tip.erasure > erasure for one in changes)
            if is_rewritten:
                manifests.clear()  # they may name parts that do not exist any more
            names = [one.tip for one in changes] + ([] if tip is None else [tip.name])
            known_tip = None if changes else tip
            relocations = None if is_rewritten else ()
            found[folder] = ListedChain(sorted(manifests), names, manifests, known_tip, relocations)
        return found


class ManifestIndex:
    """Reads the index of one namespace. Heads and packs never change, so each is read once."""

    def __init__(self, cold: ColdStore, namespace: str) -> None:
        self._cold = cold
        self._namespace = namespace
        self._loaded: IndexedNamespace | None = None

    async def load(self) -> IndexedNamespace | None:
        """Return the newest generation, or None if there is no index.

        Makes one call if nothing has changed. Raises CorruptionError and ForeignDataError if the
        index cannot be used, and the errors of the cold store.
        """
        failed: str | None = None
        for _ in range(_ATTEMPTS_MAX):
            keys = await self._cold.list(index_folder(self._namespace))
            listed = parse_index(self._namespace, keys)
            if not listed.heads:
                return None
            try:
                self._loaded = await self._read(listed)
                return self._loaded
            except NoSuchObjectError as error:
                if str(error) == failed:
                    break
                failed = str(error)  # a newer generation has replaced it after the listing
        raise CorruptionError(f"{index_folder(self._namespace)}: the index lacks objects: {failed}")

    async def _read(self, listed: ListedIndex) -> IndexedNamespace:
        generation, known = listed.heads[-1], self._loaded
        if known is not None and known.head.generation == generation:
            return _indexed(known.head, listed, known.packs, known.chains)
        data = await self._cold.get(head_key(self._namespace, generation), 0, HEAD_BYTES_MAX + 1)
        head = IndexHead.decode(self._namespace, generation, data)
        packs = {} if known is None else known.packs
        read = {one.name: packs[one.name] for one in head.packs if one.name in packs}
        missing = [one for one in head.packs if one.name not in read]

        async def read_pack(entry: PackEntry) -> None:
            key = pack_key(self._namespace, entry.name)
            data = await self._cold.get(key, 0, OBJECT_BYTES_MAX)
            read[entry.name] = decode_pack(self._namespace, key, entry.name.sha256, data)

        await for_each(missing, read_pack, _PACKS_AT_A_TIME)
        chains = chains_in([read[one.name] for one in head.packs])
        return _indexed(head, listed, read, chains)


def _indexed(
    head: IndexHead,
    listed: ListedIndex,
    packs: dict[PackName, list[PackedChain]],
    chains: Mapping[ArchiveFolder, Sequence[PackedChain]],
) -> IndexedNamespace:
    absorbed = set(head.absorbed)
    changes: dict[ArchiveFolder, list[ChainChange]] = {}
    for name, change in listed.changes.items():
        if name not in absorbed:
            changes.setdefault(change.folder, []).append(change)
    streams: dict[str, list[ArchiveFolder]] = {}
    for folder in sorted({*chains, *changes, *head.unindexed}):
        streams.setdefault(folder.stream, []).append(folder)
    return IndexedNamespace(head, listed, packs, chains, streams, changes)
