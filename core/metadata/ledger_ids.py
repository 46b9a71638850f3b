"""The ranges of ledger ids: each metadata store of a cluster issues ids of its own (rule LED-27).

The upper 15 bits of a ledger id are the number of the store that issued it, the lower 48 bits
belong to that store. The global store has number 0. The number of a regional store is issued once,
by the global store. Bookies serve the ledgers of several stores, so ids must never collide.
"""

GLOBAL_STORE = 0
"""The number of the global store."""

ID_BITS = 48
"""Bits of a ledger id below the number of its store."""

STORE_NUMBER_MAX = 2**15 - 1


def store_number_of(ledger_id: int) -> int:
    """Return the number of the metadata store in whose range the id lies."""
    assert ledger_id >= 0
    return ledger_id >> ID_BITS


def id_range_of(number: int) -> range:
    """Return the ledger ids that the store with this number issues."""
    assert 0 <= number <= STORE_NUMBER_MAX
    return range(number << ID_BITS, (number + 1) << ID_BITS)
