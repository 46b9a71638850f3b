"""What a cold store holds: manifests found by listing, checked as a chain. Needs no server."""

from dataclasses import dataclass, field

from ..core.protocol.errors import CorruptionError, RhumblineError
from ..core.runtime.cold_store import ColdStore
from .archive import read_manifest, verify_segment
from .manifest import CHAIN_START, Manifest

_MANIFEST = "manifest.json"


async def list_manifests(cold: ColdStore, prefix: str = "") -> list[Manifest]:
    """Every archived segment below ``prefix`` (``namespace`` or ``namespace/stream``), in order.

    Raises CorruptionError for a manifest that is damaged or in the wrong place.
    """
    found = []
    for key in await cold.list(prefix):
        parts = key.split("/")
        if len(parts) != 4 or parts[3] != _MANIFEST or not parts[2].startswith("lssn="):
            continue
        number = parts[2].removeprefix("lssn=")
        if not number.isdecimal():
            raise CorruptionError(f"{key}: not the folder of a segment")
        manifest = await read_manifest(cold, parts[0], parts[1], int(number))
        if manifest is not None:  # None: deleted since it was listed
            found.append(manifest)
    return sorted(found, key=lambda one: (one.namespace, one.stream, one.lssn))


@dataclass(slots=True)
class Verdict:
    """What verifying one segment found. ``faults`` is empty when all is well."""

    manifest: Manifest
    begins_chain: bool
    faults: list[str] = field(default_factory=list)


async def verify_next(cold: ColdStore, manifest: Manifest, previous: Manifest | None) -> Verdict:
    """Reads every byte of a segment and checks its link to ``previous`` (same stream, or None).

    A chain may begin anywhere (older segments were deleted), but then says so by its first
    manifest or its number; a link that is wrong is a fault.
    """
    verdict = Verdict(manifest, begins_chain=previous is None)
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
