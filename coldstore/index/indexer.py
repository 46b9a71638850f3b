"""Writes the index of a namespace, in a task of its own (rules ARC-44 to ARC-47).

Any number of processes may do this for one namespace: each generation is created by one of them,
and the others begin again with what it contains. Archiving never waits for the index.
"""

import asyncio
import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from ...core.protocol.errors import CorruptionError, ForeignDataError, RhumblineError
from ...core.runtime.cold_store import ColdStore
from ...core.runtime.event_log import EventLog, LogLimit
from ...core.runtime.tasks import for_each
from ..archive.archive_folder import ArchiveFolder, TipName
from ..archive.catalog import (
    CHAINS_AT_A_TIME,
    ListedChain,
    archived_lssns,
    listed_namespace,
    read_manifest,
)
from ..archive.relocation import Relocations
from ..proof.chain_tip import read_tip
from ..proof.erasure_chain import stored_relocations
from ..stores.known_outcome import put_object
from .index_head import IndexHead, PackEntry
from .index_keys import (
    ListedIndex,
    PackName,
    change_keys,
    head_key,
    index_folder,
    pack_key,
    parse_index,
)
from .manifest_index import IndexedNamespace, ManifestIndex
from .merge import divided, lssns_in, merge, packs_to_merge
from .pack import ChainRecord, PackedChain, encode_pack, pack_record

_LOG = EventLog(__name__)

_NONE_MOVED = Relocations()
COMPARED_EVERY = 360
"""Number of passes after which the index is compared with a listing of the whole namespace."""


@dataclass(slots=True)
class IndexPass:
    """The result of one pass."""

    changed: int = 0
    """Number of chains whose state was written to the index."""
    waiting: int = 0
    """Number of changes that the index lacks, because another process was faster."""
    is_rebuilt: bool = False
    """True if there was no index that could be used."""


@dataclass(slots=True)
class IndexCounts:
    """Counters for metrics, since the start."""

    passes: int = 0
    written: int = 0
    """Generations that were written."""
    rebuilt: int = 0
    failures: int = 0


class Indexer:
    """Keeps the index of a namespace up to date."""

    def __init__(self, cold: ColdStore, namespace: str, *, pause_ms: int = 10_000) -> None:
        self.counts = IndexCounts()
        self._cold = cold
        self._namespace = namespace
        self._pause_s = pause_ms / 1000
        self._index = ManifestIndex(cold, namespace)
        self._last = IndexPass()
        self._seen: IndexHead | None = None
        """The newest head in the last pass. What it made superfluous can be deleted."""
        self._log_limit = LogLimit()

    def statistics(self) -> dict[str, Any]:
        """Return counters for metrics."""
        return {**asdict(self.counts), "waiting_changes": self._last.waiting}

    async def run(self) -> None:
        """Run passes until cancelled. Report errors, and continue after the pause."""
        while True:
            try:
                await self.run_once()
            except RhumblineError as error:
                self.counts.failures += 1
                dropped = self._log_limit.admit(asyncio.get_running_loop().time(), self._namespace)
                if dropped is not None:
                    _LOG.warning(
                        "indexing failed", namespace=self._namespace, error=str(error),
                        dropped=dropped or None,
                    )  # fmt: skip
            await asyncio.sleep(self._pause_s)

    async def run_once(self) -> IndexPass:
        """Write a generation with the changes since the last one, if there are any.

        Safe to repeat. The first pass of a process, and every 360th, also compares the index with a
        listing of the namespace. Raises the errors of the cold store.
        """
        base = await self._usable()
        result = IndexPass(is_rebuilt=base is None)
        is_compared = self.counts.passes % COMPARED_EVERY == 0
        self.counts.passes += 1
        if base is None:
            await self._write_all(result)
        else:
            await self._sweep(base)
            changed = await self._changed(base, is_compared=is_compared)
            if changed:
                await self._write(base, base.listed, changed, result)
        self._last = result
        return result

    async def rebuild(self) -> IndexPass:
        """Write a generation from the manifests alone. Raises the errors of the cold store."""
        result = IndexPass(is_rebuilt=True)
        await self._write_all(result)
        return result

    # --- what has changed -----------------------------------------------------------------------

    async def _usable(self) -> IndexedNamespace | None:
        """Return the index; None if there is none, or a damaged one, which is written again."""
        try:
            return await self._index.load()
        except (CorruptionError, ForeignDataError) as error:
            dropped = self._log_limit.admit(asyncio.get_running_loop().time(), "rebuilt")
            if dropped is not None:
                _LOG.warning(
                    "index rebuilt", namespace=self._namespace, error=str(error),
                    dropped=dropped or None,
                )  # fmt: skip
            return None

    async def _listed(self) -> dict[ArchiveFolder, ListedChain]:
        streams = await listed_namespace(self._cold, self._namespace)
        return {folder: chain for chains in streams.values() for folder, chain in chains.items()}

    async def _changed(
        self, base: IndexedNamespace, *, is_compared: bool
    ) -> dict[ArchiveFolder, list[TipName]]:
        """Return the chains that differ from the index, with the known names of their tips."""
        found = {folder: [one.tip for one in notes] for folder, notes in base.changes.items()}
        found |= {folder: [] for folder in base.head.unindexed if folder not in found}
        if is_compared:
            listed = await self._listed()
            for folder in {*listed, *base.chains}:
                if folder not in found and _differs(base, folder, listed.get(folder)):
                    found[folder] = []
        return found

    async def _record(
        self, base: IndexedNamespace | None, folder: ArchiveFolder, tips: list[TipName]
    ) -> ChainRecord | None:
        """Return what the index lacks of a chain; None if its tip or relocations are unusable."""
        notes = () if base is None else base.changes.get(folder, ())
        records = () if base is None else base.chains.get(folder, ())
        try:
            tip = await read_tip(self._cold, folder, tips or None)
        except (CorruptionError, ForeignDataError):
            return None
        if tip is None:
            is_deleted = not await archived_lssns(self._cold, folder)
            return ChainRecord(folder, None, {}, True) if is_deleted else None
        try:
            # Notes of an archive that could not be used were absorbed with nothing else.
            was_unusable = base is not None and folder in base.head.unindexed
            is_whole = not records or was_unusable or any(one.token for one in notes)
            is_whole = is_whole or (bool(tip.erasure) and tip.erasure > _erasure_in(records))
            # A segment that the index lacks has moved only if a note, or the tip, says so.
            relocations = (
                await stored_relocations(self._cold, folder, tip=tip) if is_whole else _NONE_MOVED
            )
        except (CorruptionError, ForeignDataError):
            return None
        held = set() if is_whole else lssns_in(records)
        manifests = {}
        for lssn in tip.covered:
            if lssn not in held:
                try:
                    manifest = await read_manifest(self._cold, folder, lssn)
                    if manifest is not None:
                        manifests[lssn] = relocations.apply(manifest)
                except (CorruptionError, ForeignDataError):
                    continue  # readers read it, and report the damage
        return ChainRecord(folder, tip, manifests, is_whole)

    # --- a generation ---------------------------------------------------------------------------

    async def _write_all(self, result: IndexPass) -> None:
        """Write a generation that holds all chains, and does not depend on the one before."""
        keys = await self._cold.list(index_folder(self._namespace))
        listed = parse_index(self._namespace, keys)
        chains = {folder: list(chain.tips) for folder, chain in (await self._listed()).items()}
        for note in listed.changes.values():
            chains.setdefault(note.folder, []).append(note.tip)
        await self._write(None, listed, chains, result)

    async def _write(
        self,
        base: IndexedNamespace | None,
        listed: ListedIndex,
        changed: Mapping[ArchiveFolder, list[TipName]],
        result: IndexPass,
    ) -> None:
        """Write the next generation, unless another process is faster, and count it.

        It contains all changes of which ``listed`` has notes.
        """
        # Exactly one more than the base: a generation that skips one could lose its changes.
        generation = 1 + max(listed.heads, default=0)
        added: list[PackedChain] = []
        unindexed: list[ArchiveFolder] = []

        async def read(folder: ArchiveFolder) -> None:
            record = await self._record(base, folder, changed[folder])
            if record is None:
                unindexed.append(folder)
            else:
                added.append(pack_record(record, generation))

        await for_each(list(changed), read, CHAINS_AT_A_TIME)
        unusable = tuple(sorted(unindexed))
        if base is not None and not added and not base.changes and unusable == base.head.unindexed:
            return
        packs = await self._packs(base, added, generation)
        head = IndexHead(self._namespace, generation, packs, unusable, tuple(listed.changes))
        key = head_key(self._namespace, generation)
        if not await put_object(self._cold, key, head.encode()):
            result.waiting = len(changed)
            return
        self._seen = head
        result.changed = len(changed)
        self.counts.written += 1
        self.counts.rebuilt += base is None
        _LOG.info(
            "index written", namespace=self._namespace, generation=generation,
            chains=len(changed), packs=len(packs),
        )  # fmt: skip

    async def _packs(
        self, base: IndexedNamespace | None, added: list[PackedChain], generation: int
    ) -> tuple[PackEntry, ...]:
        """Write the new packs, and return all packs of the generation, oldest first."""
        kept = [] if base is None else list(base.head.packs)
        held = [] if base is None else [base.packs[one.name] for one in kept]
        count = 0 if base is None else _packs_to_merge(base, added)
        older, merged = kept[: len(kept) - count], [*held[len(held) - count :], added]
        chains = await asyncio.to_thread(merge, merged, is_oldest=not older)
        entries = []
        for pack in divided(chains):
            data = await asyncio.to_thread(encode_pack, pack)
            name = PackName(generation, hashlib.sha256(data).hexdigest())
            await put_object(self._cold, pack_key(self._namespace, name), data)
            entries.append(PackEntry(name, len(data)))
        return (*older, *entries)

    async def _sweep(self, base: IndexedNamespace) -> None:
        """Delete what the generation that the last pass saw, and all later ones, do not need.

        Notes are kept for a pass after their changes are in the index: a reader whose listing shows
        the generation before still finds them.
        """
        seen, self._seen = self._seen or base.head, base.head
        older = [head_key(self._namespace, one) for one in base.listed.heads
                 if one < seen.generation]  # fmt: skip
        await for_each(older, self._cold.delete, CHAINS_AT_A_TIME)
        needed = {one.name for one in base.head.packs}
        keys = [
            pack_key(self._namespace, one)
            for one in base.listed.packs
            if one.generation <= seen.generation and one not in needed
        ]
        notes = base.listed.changes
        absorbed = {*seen.absorbed} & {*base.head.absorbed}
        for name in sorted(absorbed.intersection(notes)):
            keys += change_keys(notes[name])
        await for_each(keys, self._cold.delete, CHAINS_AT_A_TIME)


def _erasure_in(records: Sequence[PackedChain]) -> int:
    """Return the newest erasure that the index contains of a chain. Raises CorruptionError."""
    tip = records[0].tip() if records else None
    return 0 if tip is None else tip.erasure


def _packs_to_merge(base: IndexedNamespace, added: Iterable[PackedChain]) -> int:
    return packs_to_merge(
        [one.size_bytes for one in base.head.packs],
        sum(len(one.blob) for one in added),
        stored=sum(len(chain.sizes) for pack in base.packs.values() for chain in pack),
        live=sum(len(records[0].covered) for records in base.chains.values()),
    )


def _differs(base: IndexedNamespace, folder: ArchiveFolder, chain: ListedChain | None) -> bool:
    """True if the index says something else of a chain than a listing."""
    records = base.chains.get(folder)
    is_held = records is not None and records[0].tip_bytes > 0
    if chain is None or records is None or not is_held:
        return is_held or chain is not None
    if not chain.tips:
        return True
    erasure = max(one.erasure for one in chain.tips)
    if erasure and erasure > _erasure_in(records):
        return True
    first = max(one.first_lssn for one in chain.tips)
    covered = range(first, max(one.last_lssn for one in chain.tips) + 1)
    held = {lssn for lssn in chain.lssns if lssn in covered}
    return covered != records[0].covered or not held <= lssns_in(records)
