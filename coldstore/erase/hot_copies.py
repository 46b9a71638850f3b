"""Finds the segments that an erasure from archives does not reach (rule ARC-70)."""

from ...core.log.namespace import LIST_LIMIT, Namespace
from ...core.protocol.errors import NoSuchNamespaceError, NoSuchStreamError
from ...core.protocol.segments import Residence, Segment


async def segments_on_bookies(namespace: Namespace, stream: str = "") -> dict[str, list[int]]:
    """Return the segments of which bookies hold copies, ascending, by the name of their stream.

    Without ``stream``, all streams of the namespace are read. Segments without records are left
    out, and so are streams that the cluster does not have. Raises the errors of the metadata store.
    """
    found: dict[str, list[int]] = {}
    try:
        for name in [stream] if stream else await _all_names(namespace):
            try:
                segments = (await namespace.describe(name)).segments
            except NoSuchStreamError:
                continue  # only the archive has it
            if lssns := sorted(one.lssn for one in segments if _may_have_records(one)):
                found[name] = lssns
    except NoSuchNamespaceError:
        return {}
    return found


def _may_have_records(segment: Segment) -> bool:
    is_on_bookies = segment.residence is not Residence.ARCHIVE
    return is_on_bookies and (not segment.is_completed or segment.record_count > 0)


async def _all_names(namespace: Namespace) -> list[str]:
    names: list[str] = []
    while True:
        page = await namespace.streams(after=names[-1] if names else None, limit=LIST_LIMIT)
        names += page
        if len(page) < LIST_LIMIT:
            return names
