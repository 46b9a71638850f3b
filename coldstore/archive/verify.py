"""Proves that archived segments are what was written: every byte, every record, the chain."""

import hashlib
from dataclasses import dataclass, field

from ...core.protocol.errors import CorruptionError, NoSuchObjectError, RhumblineError
from ...core.runtime.cold_store import ColdStore
from .content_digest import ContentDigest, raw_crc_of
from .manifest import CHAIN_START, Manifest, segment_folder
from .part import read_part
from .rate_limiter import Pace


async def verify_segment(cold: ColdStore, manifest: Manifest, *, pace: Pace | None = None) -> None:
    """Reads every byte of an archived segment back. Raises CorruptionError with what differs."""
    folder = segment_folder(manifest.namespace, manifest.stream, manifest.lssn)
    digest = ContentDigest()
    for part in manifest.parts:
        if pace is not None:
            await pace.spend(part.size_bytes)
        try:
            data = await cold.get(f"{folder}/{part.name}")
        except NoSuchObjectError as error:
            raise CorruptionError(f"{folder}/{part.name}: the part is missing") from error
        if hashlib.sha256(data).hexdigest() != part.sha256:
            raise CorruptionError(f"{folder}/{part.name}: the bytes differ from the manifest's")
        for one in read_part(data, manifest.lssn):
            digest.add(one.entry_id, one.slot, raw_crc_of(one.txids, one.payloads))
    if digest.hex() != manifest.content_digest:
        raise CorruptionError(f"{folder}: the records differ from the manifest's digest")


@dataclass(slots=True)
class VerifyResult:
    """What verifying one segment found. ``faults`` is empty when all is well."""

    manifest: Manifest
    begins_chain: bool
    faults: list[str] = field(default_factory=list)


async def verify_next(
    cold: ColdStore, manifest: Manifest, previous: Manifest | None
) -> VerifyResult:
    """Reads every byte of a segment and checks its link to ``previous`` (same stream, or None).

    A chain may begin anywhere (older segments were deleted), but then says so by its first
    manifest or its number; a link that is wrong is a fault.
    """
    verdict = VerifyResult(manifest, begins_chain=previous is None)
    if previous is not None and not manifest.follows(previous):
        verdict.faults.append(
            f"does not follow segment {previous.lssn} (a segment is missing, or was exchanged)"
        )
    if previous is None and manifest.lssn == 1 and manifest.previous_digest != CHAIN_START:
        verdict.faults.append("is the first segment and names one before it")
    try:
        await verify_segment(cold, manifest)
    except RhumblineError as error:
        verdict.faults.append(str(error))
    return verdict
