"""Finds the segments that an erasure from archives does not reach (rule ARC-70)."""

from typing import NamedTuple

from ...core.log.namespace import LIST_LIMIT, Namespace
from ...core.protocol.errors import NoSuchNamespaceError, NoSuchStreamError, UnavailableError
from ...core.protocol.segments import Residence, Segment


class HotSegments(NamedTuple):
    """The segments of a stream of which bookies hold copies."""

    stream_id: str
    lssns: tuple[int, ...]
    """Ascending."""


async def segments_on_bookies(namespace: Namespace, stream: str = "") -> dict[str, HotSegments]:
    """Return the segments of which bookies hold copies, by the name of their stream.

    Call it before an archive is listed: a segment that is archived in between is then in one of
    the two. Without ``stream``, all streams of the namespace are read. Segments without records are
    left out, and so are streams that the cluster does not have. Raises UnavailableError if the
    metadata may be old, and the errors of the metadata store.
    """
    found: dict[str, HotSegments] = {}
    try:
        for name in [stream] if stream else await _all_names(namespace):
            try:
                known = await namespace.describe(name)
            except NoSuchStreamError:
                continue  # only the archive has it
            if known.metadata_age_ms is not None:
                raise UnavailableError(
                    f"stream {name}: its metadata is {known.metadata_age_ms} ms old, so segments "
                    "on bookies may be missing: repeat this when the metadata store is available"
                )
            if lssns := sorted(one.lssn for one in known.segments if _may_have_records(one)):
                found[name] = HotSegments(known.stream_id, tuple(lssns))
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
