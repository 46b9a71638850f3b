"""Compares the index of a namespace with the archive itself (rule ARC-47)."""

from collections.abc import Iterator, Sequence

from ...core.protocol.errors import CorruptionError, ForeignDataError
from ...core.runtime.cold_store import ColdStore
from ..archive.archive_folder import ArchiveFolder
from ..archive.catalog import ManifestListing
from .index_keys import INDEXES, PackName, index_folder, pack_key, parse_index
from .manifest_index import IndexedNamespace, ManifestIndex
from .merge import joined
from .pack import PackedChain

Fault = CorruptionError | ForeignDataError


class IndexCheck:
    """Finds what is wrong in the indexes of the namespaces below a prefix.

    Call ``load`` before the archive is listed, so that the index is never ahead of the listing.
    """

    def __init__(self, cold: ColdStore, prefix: str = "") -> None:
        self._cold = cold
        self._namespace, _, self._stream = prefix.partition("/")
        self._indexes: dict[str, ManifestIndex] = {}
        self._loaded: dict[str, IndexedNamespace] = {}
        self._unusable: dict[str, Fault] = {}
        self._headless: dict[str, set[PackName]] = {}
        """Packs that are newer than every head: the head was lost, or is about to be written."""

    async def load(self) -> None:
        """Read the indexes. Raises the errors of the cold store."""
        keys = [] if self._namespace else await self._cold.list(INDEXES)
        names = {self._namespace} if self._namespace else {key.split("/")[1] for key in keys}
        for name in sorted(names):
            self._indexes[name] = ManifestIndex(self._cold, name)
            self._headless[name] = await self._newer_than_heads(name)
            try:
                loaded = await self._indexes[name].load()
            except (CorruptionError, ForeignDataError) as error:
                self._unusable[index_folder(name)] = error
            else:
                if loaded is not None:
                    self._loaded[name] = loaded

    async def faults(self, listing: ManifestListing) -> dict[str, Fault]:
        """Return the faults by key: that of an index, or ``key_of`` an archive.

        ``listing`` was made from the objects of the archive. A chain may be newer than the index if
        a note says so, now or when ``load`` was called.
        """
        found = dict(self._unusable)
        for name, before in self._headless.items():
            if lost := before and before & await self._newer_than_heads(name):
                key = pack_key(name, min(lost))
                found[index_folder(name)] = CorruptionError(
                    f"{key}: the head of its generation was lost, or its writer crashed: the next "
                    "pass of an archiver writes it again"
                )
        for name, loaded in self._loaded.items():
            try:
                now = await self._indexes[name].load()
            except (CorruptionError, ForeignDataError) as error:
                found[index_folder(name)] = error
                continue
            archived = {one for one in listing.folders if one.namespace == name}
            for note in sorted(_incomplete(loaded) & (set() if now is None else _incomplete(now))):
                if self._stream in ("", loaded.listed.changes[note].folder.stream):
                    key = f"{index_folder(name)}/{note}"
                    found[key] = CorruptionError(
                        f"{key}: one of the two objects of the note was lost, or its writer "
                        "crashed: the next pass of an archiver needs only one"
                    )
            for folder in sorted({*loaded.chains, *archived}):
                if self._stream in ("", folder.stream):
                    fault = next(_faults_of(folder, loaded, now, listing), None)
                    if fault is not None:
                        found[self.key_of(folder)] = fault
        return found

    async def _newer_than_heads(self, namespace: str) -> set[PackName]:
        listed = parse_index(namespace, await self._cold.list(index_folder(namespace)))
        return {one for one in listed.packs if one.generation > max(listed.heads, default=0)}

    def key_of(self, folder: ArchiveFolder) -> str:
        """Return the key under which ``faults`` returns the first fault of an archive."""
        return f"{index_folder(folder.namespace)}/{folder.stream}/{folder.stream_id}"


def _incomplete(loaded: IndexedNamespace) -> set[str]:
    """Return the names of notes that lack an object and have not been taken into the index."""
    return loaded.listed.incomplete - set(loaded.head.absorbed)


def _faults_of(
    folder: ArchiveFolder,
    loaded: IndexedNamespace,
    now: IndexedNamespace | None,
    listing: ManifestListing,
) -> Iterator[Fault]:
    if folder.stream in loaded.must_be_listed:
        return
    where = f"{index_folder(folder.namespace)}: "
    records: Sequence[PackedChain] = loaded.chains.get(folder, ())
    try:
        record = joined(records) if records else None
    except (CorruptionError, ForeignDataError) as error:
        yield error
        return
    tip = listing.tips.get(folder)
    if tip is None:  # the listing reports it, or the archive was deleted
        if folder not in listing.folders and record is not None and record.tip is not None:
            yield CorruptionError(f"{where}{folder.chain} does not exist")
        return
    if record is not None and record.tip is not None:
        held = record.tip
        is_older = all(a <= b for a, b in zip(held.name, tip.name, strict=True))
        if not is_older or (held.name == tip.name and held != tip):
            yield CorruptionError(f"{where}the tip of {folder.chain} is {held}, not {tip}")
    stored = {one.lssn: one for one in listing.manifests if one.folder == folder}
    has_news = now is not None and _has_news(folder, loaded, now)
    is_noted = has_news or folder in loaded.changes
    is_rewritten = has_news or any(one.token for one in loaded.changes.get(folder, ()))
    for lssn, manifest in () if record is None else record.manifests.items():
        found = stored.get(lssn)
        if found is not None and found != manifest and not is_rewritten:
            yield CorruptionError(f"{where}the copy of {found.key} differs from the object")
    covered = range(0) if record is None or record.tip is None else record.tip.covered
    if not is_noted and tip.covered != covered and tip.last_link:
        yield CorruptionError(
            f"{where}it has segments {covered.start} to {covered.stop - 1} of {folder.chain}, the "
            f"archive has {tip.first_lssn} to {tip.last_lssn}, and no note says so"
        )


def _has_news(folder: ArchiveFolder, loaded: IndexedNamespace, now: IndexedNamespace) -> bool:
    """True if the chain was changed or indexed again after the index had been loaded."""
    return now.version(folder.stream) != loaded.version(folder.stream)
