"""Acknowledgements of single records are stored in the node of their subscription."""

import json
from itertools import pairwise

import pytest

from rhumbline.core.log.metadata.acknowledgements import UNACKNOWLEDGED_LIMIT, Acknowledgements
from rhumbline.core.log.metadata.subscriptions import decode_subscription
from rhumbline.core.protocol.dlsn import Dlsn
from rhumbline.core.protocol.errors import CorruptionError
from rhumbline.tests.support.fakes.log_world import LogWorld

HELD = Acknowledgements(
    "c1",
    Dlsn(2, 9, 0),
    ((Dlsn(1, 4, 1), Dlsn(1, 5, 0)), (Dlsn(1, 7, 0), Dlsn(2, 0, 3))),
    ((Dlsn(1, 4, 0), 3),),
)


def test_stored_form_round_trips() -> None:
    assert Acknowledgements.from_fields(json.loads(json.dumps(HELD.to_fields()))) == HELD


def test_what_is_below_a_position_is_dropped() -> None:
    after = HELD.above(Dlsn(1, 8, 0))
    assert after.ranges == ((Dlsn(1, 8, 0), Dlsn(2, 0, 3)),)
    assert after.deliveries == ()
    assert after.contains(Dlsn(2, 0, 2))
    assert not after.contains(Dlsn(2, 0, 3))
    assert HELD.above(Dlsn(9, 0, 0)).delivered_to == Dlsn(9, 0, 0)


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {**HELD.to_fields(), "ranges": [["1:5:0", "1:4:0"]]},
        {**HELD.to_fields(), "deliveries": [["1:5:0", "x"]]},
        {**HELD.to_fields(), "delivered_to": "nowhere"},
    ],
)
def test_damaged_form_is_refused(fields: dict[str, object]) -> None:
    with pytest.raises(CorruptionError):
        Acknowledgements.from_fields(fields)


def test_largest_state_fits_a_value_of_the_metadata_store() -> None:
    positions = [Dlsn(99_999, 9_000_000 + n, 9_999) for n in range(UNACKNOWLEDGED_LIMIT + 1)]
    largest = Acknowledgements(
        "f" * 16, positions[-1], tuple(pairwise(positions)), tuple((at, 99) for at in positions)
    )
    assert len(json.dumps(largest.to_fields(), separators=(",", ":"))) < 96 * 1024 - 500


async def test_commit_of_a_position_keeps_the_acknowledgements_above_it(world: LogWorld) -> None:
    await world.namespace.create_stream("s")
    store = world.namespace.subscriptions
    await store.create("s", "mine", Dlsn(1, 0, 0))
    taken = await store.take_over("s", "mine", "c1")
    await store.store(taken, "s", Dlsn(1, 4, 0), HELD)
    moved = await store.commit(taken, "s", Dlsn(1, 6, 0))
    assert moved.acknowledgements is not None
    assert moved.acknowledgements.ranges == ((Dlsn(1, 7, 0), Dlsn(2, 0, 3)),)
    path = "/rhumbline/namespaces/test/streams/s/subscriptions/mine"
    data = (await world.store.get(path)).data
    assert json.loads(data)["v"] == 2, "a program that knows no acknowledgements refuses it"
    assert decode_subscription("mine", data) == moved
    reset = await store.reset("s", "mine", Dlsn(1, 0, 0))
    assert reset.acknowledgements is None
