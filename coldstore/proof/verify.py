"""Verifies archived segments: every byte, every record, and the chain of manifests."""

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from ...core.protocol.errors import CorruptionError, NoSuchObjectError, RhumblineError
from ...core.runtime.cold_store import ColdStore
from ...core.runtime.primitives.rate_limiter import RateLimiter
from ..archive.content_digest import raw_crc_of
from ..archive.manifest import CHAIN_START, Manifest, Part
from ..archive.part import ArchivedSet, read_part, sets_of
from ..archive.part_file import PartFile, chunk_crcs_of, footer_of
from ..erase.erased_digest import DigestOfErased
from .chain_tip import ChainTip, check_in_chain


async def verify_segment(
    cold: ColdStore, manifest: Manifest, *, rate_limiter: RateLimiter | None = None
) -> None:
    """Read every byte of an archived segment. Raises CorruptionError that names the difference.

    Records may be missing only if they are listed as erased.
    """
    digest = DigestOfErased(manifest.erased)
    for part in manifest.parts:
        if rate_limiter is not None:
            await rate_limiter.acquire(part.size_bytes)
        key = manifest.part_key(part)
        try:
            verify = _verify_groups if part.group_count else _verify_file
            await verify(cold, manifest, part, digest)
        except NoSuchObjectError as error:
            raise CorruptionError(f"{key}: the part is missing") from error
        except CorruptionError as error:
            raise CorruptionError(f"{key}: {str(error).removeprefix(f'{key}: ')}") from error
    if digest.hex() != manifest.content_digest:
        raise CorruptionError(
            f"{manifest.key}: the records do not match the content digest in the manifest"
        )
    _check_totals(manifest)


async def _verify_file(
    cold: ColdStore, manifest: Manifest, part: Part, digest: DigestOfErased
) -> None:
    """Verify a part that is a whole file, and add its record sets to the digest."""
    data = await cold.get(manifest.part_key(part))
    if hashlib.sha256(data).hexdigest() != part.sha256:
        raise CorruptionError("the SHA-256 differs from that in the manifest")
    sets = read_part(data, manifest.lssn, has_gaps=bool(manifest.erased))
    totals = _described(sets, digest)
    found = replace(
        totals,
        name=part.name,
        size_bytes=len(data),
        sha256=part.sha256,
        footer_sha256=hashlib.sha256(footer_of(data)).hexdigest(),
        chunk_crcs=chunk_crcs_of(data),
    )
    if not _describes(part, found):
        raise CorruptionError(f"the manifest describes {part}, the file is {found}")


async def _verify_groups(
    cold: ColdStore, manifest: Manifest, part: Part, digest: DigestOfErased
) -> None:
    """Verify a part that is some row groups of a file, and add its record sets to the digest.

    The bytes outside of column chunks, such as indexes, are verified with the first part of a file.
    """
    key = manifest.part_key(part)
    if part.first_group == 0:
        data = await cold.get(key)
        if hashlib.sha256(data).hexdigest() != part.sha256:
            raise CorruptionError("the SHA-256 differs from that in the manifest")
    file = await PartFile.open(cold, key, part)
    sets: list[ArchivedSet] = []
    for group in range(len(file.row_groups)):
        table = await file.read(group)
        sets += sets_of(table, manifest.lssn, has_gaps=bool(manifest.erased))
    totals = _described(sets, digest)
    found = replace(
        part,
        first_entry_id=totals.first_entry_id,
        last_entry_id=totals.last_entry_id,
        first_txid=totals.first_txid,
        last_txid=totals.last_txid,
        record_count=totals.record_count,
        payload_bytes=totals.payload_bytes,
    )
    if not _describes(part, found):
        raise CorruptionError(f"the manifest describes {part}, the file holds {found}")


def _described(sets: Iterable[ArchivedSet], digest: DigestOfErased) -> Part:
    """Return bounds and totals of record sets as a part; the members about files are empty."""
    first = last = None
    records = payload_bytes = 0
    for one in sets:
        crc = raw_crc_of(one.txids, one.payloads, one.attributes)
        digest.add(one.entry_id, one.slot, len(one.payloads), crc)
        first, last = first or one, one
        records += len(one.payloads)
        payload_bytes += sum(map(len, one.payloads))
    if first is None or last is None:
        raise CorruptionError("the part holds no records")
    bounds = (first.entry_id, last.entry_id, first.txids[0], last.txids[-1])
    return Part("", *bounds, records, payload_bytes, 0, "", "")


def _describes(part: Part, found: Part) -> bool:
    """True if a part is described as it was found; its first and last entries may have no rows."""
    holds = part.first_entry_id <= found.first_entry_id
    holds = holds and found.last_entry_id <= part.last_entry_id
    entries = (part.first_entry_id, part.last_entry_id)
    found = replace(found, first_entry_id=entries[0], last_entry_id=entries[1])
    return holds and found == part


def _check_totals(manifest: Manifest) -> None:
    parts = manifest.parts
    if manifest.erased:  # the totals are those before the erasure
        return
    totals = replace(
        manifest,
        payload_bytes=sum(part.payload_bytes for part in parts),
        first_txid=parts[0].first_txid if parts else 0,
        last_txid=parts[-1].last_txid if parts else 0,
    )
    if totals != manifest:
        raise CorruptionError(f"{manifest.key}: the totals differ from those of the parts")


@dataclass(slots=True)
class VerifyResult:
    """The result of verifying one segment. ``faults`` is empty if no fault was found."""

    manifest: Manifest
    faults: list[str] = field(default_factory=list)
    is_read: bool = True
    """False if its links were checked, but no bytes of its parts."""


async def verify_next(
    cold: ColdStore,
    manifest: Manifest,
    previous: Manifest | None,
    tip: ChainTip | None,
    *,
    reads_parts: bool = True,
) -> VerifyResult:
    """Check the link of a segment to ``previous`` (same stream, or None), and read every byte.

    Without ``reads_parts``, only the links are checked.

    A chain may begin at any segment, because older ones may have been deleted. Segment 1 must not
    name a previous segment, and a wrong link is a fault.
    """
    result = VerifyResult(manifest, is_read=reads_parts)
    try:
        if tip is not None:
            check_in_chain(manifest, _linked(manifest, previous), tip)
        if previous is None and manifest.lssn == 1 and manifest.previous_link != CHAIN_START:
            raise CorruptionError("is segment 1, but names the link of a previous segment")
    except CorruptionError as error:
        result.faults.append(str(error))
    try:
        if reads_parts:
            await verify_segment(cold, manifest)
    except RhumblineError as error:
        result.faults.append(str(error))
    return result


def _linked(manifest: Manifest, previous: Manifest | None) -> Manifest | None:
    """Return the manifest that ``manifest`` must follow.

    None where a manifest is missing between the two, which is a fault of its own, and where a chain
    begins again after segments that were deleted without having been archived.
    """
    if previous is None or previous.lssn != manifest.lssn - 1:
        return None
    return previous
