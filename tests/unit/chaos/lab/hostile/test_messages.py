"""Hostile messages differ from each other, and no bookie accepts one of them as an add."""

from random import Random

import pytest

from rhumbline.chaos.lab.hostile.messages import BOOKIE, PROXY, STATUS, batch_of


@pytest.mark.parametrize("kind", [BOOKIE, PROXY, STATUS])
def test_a_batch_follows_from_its_seed_and_kind(kind: str) -> None:
    batch = batch_of(kind, 100, Random(1))
    assert batch == batch_of(kind, 100, Random(1))
    assert batch != batch_of(kind, 100, Random(2))
    assert len(batch) > 100 * 8
