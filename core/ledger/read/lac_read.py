"""Reads the LAC from the bookies of the last fragment, without fencing (rule LED-22)."""

from ...protocol.errors import (
    CorruptionError,
    NoSuchEntryError,
    NoSuchLedgerError,
    RhumblineError,
    UnavailableError,
)
from ...protocol.ledger_metadata import Fragment
from ...protocol.quorum import QuorumView
from ...wire import bookkeeper_pb2 as pb
from ...wire import v3
from ...wire.entry import EntryDigest
from ..connection.bookie_pool import BookiePool
from ..connection.ensemble_request import EnsembleRequest
from ..connection.v3_responses import lac_in


async def read_lac(
    pool: BookiePool,
    ledger_id: int,
    digest: EntryDigest,
    fragment: Fragment,
    view: QuorumView,
    *,
    known: int,
    fresh: bool,
) -> int:
    """Returns the largest LAC among enough responses, or the first one above ``known``.

    Responses are enough if every set of bookies that could have acknowledged an entry contains one
    that responded. If ``fresh``, enough responses are always required. Raises UnavailableError if
    there are too few.
    """
    largest = fragment.first_entry_id - 1
    responded = 0
    pending = (1 << len(fragment.bookies)) - 1
    errors: list[RhumblineError] = []

    def tally(
        index: int, error: RhumblineError | None, response: pb.Response | None
    ) -> bool | None:
        nonlocal largest, responded, pending
        pending &= ~(1 << index)
        if error is None:
            assert response is not None
            try:
                largest = max(largest, lac_in(response, digest, ledger_id))
            except CorruptionError as corrupt:
                error = corrupt
        if error is None or isinstance(error, NoSuchEntryError | NoSuchLedgerError):
            responded |= 1 << index
        else:
            errors.append(error)
        is_higher = not fresh and largest > known
        return True if is_higher or not pending or view.is_fencing_complete(responded) else None

    members = range(len(fragment.bookies))
    request = v3.read_lac_request(0, ledger_id)
    await EnsembleRequest(pool, fragment.bookies, members, request, tally).verdict
    if (fresh or largest <= known) and not view.is_fencing_complete(responded):
        raise UnavailableError(
            f"ledger {ledger_id}: too few bookies responded with their LAC: {errors[0]}"
        )
    return largest
