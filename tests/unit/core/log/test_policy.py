"""Policies as they are stored in the metadata store."""

import pytest

from rhumbline.core.log.policy import FlushPolicy, StreamPolicy
from rhumbline.core.protocol.errors import CorruptionError
from rhumbline.core.protocol.quorum import Quorum

STORED = StreamPolicy(Quorum(5, 3, 2), FlushPolicy(period_ms=10), roll_ms=1_000).to_fields()


def test_equal_fields_give_one_object() -> None:
    first, again = StreamPolicy.from_fields(STORED), StreamPolicy.from_fields(dict(STORED))
    assert first is again
    assert first == StreamPolicy(Quorum(5, 3, 2), FlushPolicy(period_ms=10), roll_ms=1_000)
    other = StreamPolicy.from_fields({**STORED, "roll_ms": 2_000})
    assert (first.roll_ms, other.roll_ms) == (1_000, 2_000)


def test_values_that_are_equal_in_python_are_not_taken_for_each_other() -> None:
    """JSON's true and 1 are equal as keys, and only one of them is a number of milliseconds."""
    assert StreamPolicy.from_fields({**STORED, "roll_ms": 1}).roll_ms == 1
    for _ in range(2):
        with pytest.raises(CorruptionError, match="roll_ms"):
            StreamPolicy.from_fields({**STORED, "roll_ms": True})


@pytest.mark.parametrize(
    "changes",
    [{"unknown": 1}, {"quorum": None}, {"quorum": [1]}, {"codec": "none-such"}, {"roll_ms": "x"}],
    ids=lambda changes: str(*changes),
)
def test_bad_fields_are_corrupt(changes: dict[str, object]) -> None:
    with pytest.raises(CorruptionError, match="bad stream policy"):
        StreamPolicy.from_fields({**STORED, **changes})


def test_fields_that_are_nested_too_deeply_are_corrupt() -> None:
    nested: list[object] = []
    for _ in range(100_000):
        nested = [nested]
    with pytest.raises(CorruptionError, match="nested too deeply"):
        StreamPolicy.from_fields({**STORED, "regions": nested})
