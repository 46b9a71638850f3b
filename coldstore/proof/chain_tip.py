"""The tip of a chain: which segments a stream's archive holds (rule ARC-23).

A tip names the first and the last segment of the chain, and the link of the last one. A reader
therefore knows when a manifest is missing, even the first or the last one. It also names the newest
erasure (rule ARC-68). Objects never change, so each change of the chain writes another tip, whose
name holds all numbers, and then deletes the older ones. The numbers only rise; where several tips
are left, each number counts where it is highest. An archive without a tip is damaged: the first
tip, of an empty chain, is written before the first manifest.
"""

from dataclasses import asdict, dataclass, replace

from ...core.protocol.dlsn import STREAM_ID_CHARACTERS
from ...core.protocol.errors import CorruptionError, ForeignDataError, NoSuchObjectError
from ...core.runtime.cold_store import ColdStore
from ..archive.archive_folder import ArchiveFolder, TipName
from ..archive.manifest import CHAIN_START, Manifest
from ..index.changes import note_change
from ..stores.known_outcome import put_object
from .sealed_json import decode_sealed, encode_sealed

FORMAT = 1
TIP_BYTES_MAX = 64 << 10
_ATTEMPTS_MAX = 5


@dataclass(frozen=True, slots=True)
class ChainTip:
    """The tip of a chain. It is empty if ``last_lssn`` is below ``first_lssn``."""

    namespace: str
    stream: str
    stream_identity: str
    first_lssn: int
    """The first segment whose manifest must exist; older ones were deleted by retention."""
    last_lssn: int
    last_link: str
    """The link of segment ``last_lssn``; it covers all segments before it."""
    created_ms: int
    """When the first segment of the chain was created: orders streams that had the same name."""
    erasure: int = 0
    """The newest relocation that erased records; 0: none did."""
    erasure_sha256: str = ""
    """Its SHA-256."""

    @property
    def folder(self) -> ArchiveFolder:
        """The place of the archive."""
        stream_id = self.stream_identity[:STREAM_ID_CHARACTERS]
        return ArchiveFolder(self.namespace, self.stream, stream_id)

    @property
    def name(self) -> TipName:
        """The numbers in the name of the tip."""
        return TipName(self.last_lssn, self.first_lssn, self.erasure)

    @property
    def covered(self) -> range:
        """The segments that the archive must hold."""
        return range(self.first_lssn, self.last_lssn + 1)

    def covers(self, lssn: int) -> bool:
        """True if the archive must hold this segment."""
        return lssn in self.covered

    def with_last(self, manifest: Manifest) -> "ChainTip":
        """Return the tip of the chain that ends with the segment of ``manifest``.

        A segment that names no previous one begins a chain of its own.
        """
        begins = manifest.previous_link == CHAIN_START
        first_lssn = manifest.lssn if begins else self.first_lssn
        return replace(
            self, first_lssn=first_lssn, last_lssn=manifest.lssn, last_link=manifest.link
        )

    def encode(self) -> bytes:
        """Return the content of the tip's object."""
        fields = asdict(self)
        if not self.erasure:
            del fields["erasure"], fields["erasure_sha256"]
        return encode_sealed(FORMAT, fields)

    @classmethod
    def decode(cls, data: bytes) -> "ChainTip":
        """Decode a tip. Raises CorruptionError; ForeignDataError for another format."""
        try:
            return cls(**decode_sealed("archive tip", FORMAT, data))
        except TypeError as error:
            raise CorruptionError(f"not an archive tip: {error}") from error


def empty_tip(first: Manifest) -> ChainTip:
    """Return the tip of a chain that will begin with the segment of ``first``."""
    names = (first.namespace, first.stream, first.stream_identity)
    return ChainTip(*names, first.lssn, first.lssn - 1, CHAIN_START, first.created_ms)


def lost_tip_error(folder: ArchiveFolder) -> CorruptionError:
    """Return the error for a chain that has manifests and no tip."""
    return CorruptionError(
        f"{folder.tips}: the tip of the chain is missing, so segments may be missing too: "
        "'rhumbline archive reconcile --repair-tips' compares the archive with the cluster"
    )


def check_in_chain(manifest: Manifest, previous: Manifest | None, tip: ChainTip) -> None:
    """Raise CorruptionError if a manifest does not continue ``previous`` or contradicts the tip."""
    if previous is not None and not manifest.follows(previous):
        raise CorruptionError(
            f"{manifest.key}: does not follow segment {previous.lssn} (a segment was exchanged)"
        )
    if manifest.lssn == tip.last_lssn and manifest.link != tip.last_link:
        raise CorruptionError(f"{manifest.key}: its link is not that of the tip of the chain")


async def read_tip(
    cold: ColdStore, folder: ArchiveFolder, listed: list[TipName] | None = None
) -> ChainTip | None:
    """Return the tip of a chain, or None if it has none.

    ``listed`` are the names of its tips according to a listing that the caller has made.
    Raises CorruptionError and ForeignDataError, which name the object.
    """
    for _ in range(_ATTEMPTS_MAX):
        names = listed or await listed_tips(cold, folder)
        if not names:
            return None
        try:
            return await merged_tip(cold, folder, names)
        except NoSuchObjectError:
            listed = None  # a newer tip has replaced it after the listing
    raise CorruptionError(f"{folder.tips}: the tips that are listed do not exist")


async def listed_tips(cold: ColdStore, folder: ArchiveFolder) -> list[TipName]:
    """Return the names of the tips of a chain, from a listing alone."""
    names = (TipName.parse(key.rpartition("/")[2]) for key in await cold.list(folder.tips))
    return [name for name in names if name is not None]


async def merged_tip(cold: ColdStore, folder: ArchiveFolder, names: list[TipName]) -> ChainTip:
    """Return the tip that several ones make together.

    Raises NoSuchObjectError if one was replaced meanwhile, CorruptionError and ForeignDataError.
    """
    newest = await _read(cold, folder, max(names))
    first = max(names, key=lambda name: name.first_lssn)
    if first.first_lssn > newest.first_lssn:
        newest = _with_first(newest, (await _read(cold, folder, first)).first_lssn)
    erased = max(names, key=lambda name: name.erasure)
    if erased.erasure > newest.erasure:
        other = await _read(cold, folder, erased)
        newest = replace(newest, erasure=other.erasure, erasure_sha256=other.erasure_sha256)
    return newest


async def advance_tip(cold: ColdStore, tip: ChainTip) -> ChainTip:
    """Write a tip, or one that joins it with the tips of others, and delete those it replaces.

    The change is noted for the index of the namespace (rule ARC-45), unless the chain is empty
    because it is new. Return what was written. Raises CorruptionError if a tip of the same segments
    has another link or another erasure.
    """
    for _ in range(_ATTEMPTS_MAX):
        key = tip.folder.tip(tip.name)
        if not await put_object(cold, key, tip.encode()):
            found = await _read(cold, tip.folder, tip.name)
            if found != tip:
                differs = found.last_link != tip.last_link
                what = "the link" if differs else "the erasure"
                held, new = (
                    one.last_link if differs else one.erasure_sha256 for one in (found, tip)
                )
                raise CorruptionError(f"{key}: the tip has {what} {held}, not {new}")
        names = {tip.name, *await listed_tips(cold, tip.folder)}
        try:
            merged = await merged_tip(cold, tip.folder, list(names))
        except NoSuchObjectError:
            continue  # another process has replaced one of them
        if merged == tip:
            for name in names - {tip.name}:
                await cold.delete(tip.folder.tip(name))
            break
        tip = merged
    if tip.last_link != CHAIN_START:
        await note_change(cold, tip.folder, tip.name)
    return tip


async def raise_first(cold: ColdStore, tip: ChainTip, first_lssn: int) -> ChainTip:
    """Record that the segments below ``first_lssn`` no longer belong to the chain.

    Call it before they are deleted: a reader then never takes a deletion for damage.
    """
    if first_lssn <= tip.first_lssn:
        await note_change(cold, tip.folder, tip.name)  # a crash may have prevented it
        return tip
    return await advance_tip(cold, _with_first(tip, min(first_lssn, tip.last_lssn + 1)))


def _with_first(tip: ChainTip, first_lssn: int) -> ChainTip:
    return replace(tip, first_lssn=first_lssn)


async def _read(cold: ColdStore, folder: ArchiveFolder, name: TipName) -> ChainTip:
    key = folder.tip(name)
    data = await cold.get(key, 0, TIP_BYTES_MAX + 1)
    try:
        tip = ChainTip.decode(data)
    except (CorruptionError, ForeignDataError) as error:
        raise type(error)(f"{key}: {error}") from error
    if (tip.folder, tip.name) != (folder, name):
        raise CorruptionError(f"{key}: the tip is of {'/'.join(tip.folder)}, {tip.name}")
    return tip
