"""A writer counts as gone only if nothing that it changes has risen for the whole grace time."""

from dataclasses import replace

import pytest

from rhumbline.core.log.metadata.stream_metadata import StreamHead
from rhumbline.core.protocol.bookie_id import BookieId
from rhumbline.core.runtime.metadata_store import Version
from rhumbline.regions.ownerless.writer_watch import WriterSigns, WriterWatch

A, B = BookieId("a@00000001"), BookieId("b@00000001")
SIGNS = WriterSigns(StreamHead(3, "token", 2), Version("1"), 0, {A: 5, B: 4})
GRACE_MS = 10_000


def test_a_writer_without_a_new_sign_is_gone_after_the_grace_time_and_not_before() -> None:
    watch = WriterWatch(GRACE_MS)
    assert watch.observe(1, SIGNS, 100.0) == GRACE_MS
    assert watch.observe(1, SIGNS, 109.0) == 1_000
    assert watch.observe(1, SIGNS, 110.0) == 0
    assert watch.observe(2, SIGNS, 110.0) == GRACE_MS, "each ledger has its own grace time"


@pytest.mark.parametrize(
    "sign",
    [
        replace(SIGNS, head=StreamHead(4, "other", 2)),
        replace(SIGNS, head=StreamHead(3, "token", 3)),
        replace(SIGNS, ledger_version=Version("2")),
        replace(SIGNS, answers=1),
        replace(SIGNS, highest={A: 6, B: 4}),
    ],
    ids=["claimed", "extended", "ensemble changed", "answered", "added"],
)
def test_every_sign_of_life_begins_the_grace_time_anew(sign: WriterSigns) -> None:
    watch = WriterWatch(GRACE_MS)
    watch.observe(1, SIGNS, 0.0)
    assert watch.observe(1, sign, 9.0) == GRACE_MS
    assert watch.observe(1, sign, 18.0) == 1_000
    assert watch.observe(1, sign, 19.0) == 0


def test_a_bookie_that_responds_for_the_first_time_begins_the_grace_time_anew() -> None:
    """It may hold entries that were added since the first observation."""
    watch = WriterWatch(GRACE_MS)
    only_a = replace(SIGNS, highest={A: 5})
    watch.observe(1, only_a, 0.0)
    assert watch.observe(1, SIGNS, 9.0) == GRACE_MS
    assert watch.observe(1, only_a, 15.0) == 4_000, "it may fall silent again"
    assert watch.observe(1, SIGNS, 19.0) == 0, "and return without a new entry"


def test_a_forgotten_writer_is_observed_anew() -> None:
    watch = WriterWatch(GRACE_MS)
    watch.observe(1, SIGNS, 0.0)
    watch.forget(1)
    assert watch.observe(1, SIGNS, 20.0) == GRACE_MS
