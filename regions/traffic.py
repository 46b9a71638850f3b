"""Bytes by (from region, to region), as a process's connections have counted them."""

from collections import Counter
from collections.abc import Mapping

from ..core.metadata.bookie_directory import BookieDirectory
from ..core.protocol.bookie_id import BookieId, Region

UNKNOWN = "unknown"


async def traffic_by_region(
    traffic: Mapping[BookieId, tuple[int, int]], directory: BookieDirectory, own: Region | None
) -> dict[tuple[str, str], int]:
    """Bytes on the wire by (from region, to region), sorted; ``traffic``: (sent, received) each.

    Raises MetadataUnavailableError for a bookie whose region was never looked up before.
    """
    here = own or UNKNOWN
    found: Counter[tuple[str, str]] = Counter()
    for bookie, (sent, received) in sorted(traffic.items()):
        there = await directory.region_of(bookie) or UNKNOWN
        found[here, there] += sent
        found[there, here] += received
    return dict(sorted(found.items()))
