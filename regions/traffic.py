"""Traffic in bytes by (from region, to region), counted by a process's connections."""

from collections import Counter
from collections.abc import Mapping

from ..core.metadata.bookie_directory import BookieDirectory
from ..core.protocol.bookie_id import BookieId, Region

UNKNOWN = "unknown"


async def traffic_by_region(
    traffic: Mapping[BookieId, tuple[int, int]], directory: BookieDirectory, own: Region | None
) -> dict[tuple[str, str], int]:
    """Return bytes on the wire by (from region, to region), sorted.

    ``traffic`` holds (sent, received) bytes by bookie. Raises MetadataUnavailableError for a bookie
    whose region was never looked up.
    """
    here = own or UNKNOWN
    found: Counter[tuple[str, str]] = Counter()
    for bookie, (sent, received) in sorted(traffic.items()):
        there = await directory.region_of(bookie) or UNKNOWN
        found[here, there] += sent
        found[there, here] += received
    return dict(sorted(found.items()))
