"""Verifies archived segments: every byte, every record, and the chain of manifests."""

import hashlib
from dataclasses import dataclass, field

from ...core.protocol.errors import CorruptionError, NoSuchObjectError, RhumblineError
from ...core.runtime.cold_store import ColdStore
from ...core.runtime.primitives.rate_limiter import RateLimiter
from .content_digest import ContentDigest, raw_crc_of
from .manifest import CHAIN_START, Manifest
from .part import read_part


async def verify_segment(
    cold: ColdStore, manifest: Manifest, *, rate_limiter: RateLimiter | None = None
) -> None:
    """Read every byte of an archived segment. Raises CorruptionError that names the difference."""
    digest = ContentDigest()
    for part in manifest.parts:
        if rate_limiter is not None:
            await rate_limiter.acquire(part.size_bytes)
        try:
            data = await cold.get(manifest.part_key(part))
        except NoSuchObjectError as error:
            raise CorruptionError(f"{manifest.part_key(part)}: the part is missing") from error
        if hashlib.sha256(data).hexdigest() != part.sha256:
            raise CorruptionError(
                f"{manifest.part_key(part)}: the SHA-256 differs from that in the manifest"
            )
        for record_set in read_part(data, manifest.lssn):
            raw_crc = raw_crc_of(record_set.txids, record_set.payloads, record_set.attributes)
            digest.add(record_set.entry_id, record_set.slot, raw_crc)
    if digest.hex() != manifest.content_digest:
        raise CorruptionError(
            f"{manifest.key}: the records do not match the content digest in the manifest"
        )


@dataclass(slots=True)
class VerifyResult:
    """The result of verifying one segment. ``faults`` is empty if no fault was found."""

    manifest: Manifest
    begins_chain: bool
    faults: list[str] = field(default_factory=list)


async def verify_next(
    cold: ColdStore, manifest: Manifest, previous: Manifest | None
) -> VerifyResult:
    """Read every byte of a segment and check its link to ``previous`` (same stream, or None).

    A chain may begin at any segment, because older ones may have been deleted. Segment 1 must not
    name a previous segment, and a wrong link is a fault.
    """
    result = VerifyResult(manifest, begins_chain=previous is None)
    if previous is not None and not manifest.follows(previous):
        result.faults.append(
            f"does not follow segment {previous.lssn} (a segment is missing or was exchanged)"
        )
    if previous is None and manifest.lssn == 1 and manifest.previous_digest != CHAIN_START:
        result.faults.append("is segment 1, but names the digest of a previous segment")
    try:
        await verify_segment(cold, manifest)
    except RhumblineError as error:
        result.faults.append(str(error))
    return result
