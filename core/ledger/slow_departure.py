"""A writer's departure from a slow bookie, as it is reported to the owner of the ledger client."""

from typing import NamedTuple

from ..protocol.bookie_id import BookieId


class SlowDeparture(NamedTuple):
    """A writer replaced ``bookie``, which was slow. Both ensembles are in order of index."""

    ledger_id: int
    bookie: BookieId
    before: tuple[BookieId, ...]
    after: tuple[BookieId, ...]
    at: float
    """Loop time in seconds."""
