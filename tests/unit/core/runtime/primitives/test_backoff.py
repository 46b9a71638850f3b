"""Pauses double up to their maximum, are spread by jitter, and can be replayed from a seed."""

import asyncio
from itertools import pairwise
from random import Random

import pytest

from rhumbline.core.runtime.primitives.backoff import Backoff
from rhumbline.tests.support.fakes.jumping_loop import run_jumping

pytestmark = pytest.mark.run_by(runner=run_jumping)


class NoJitter(Random):
    def random(self) -> float:
        return 0.5


def pauses(backoff: Backoff, count: int) -> list[float]:
    return [backoff.next_s() for _ in range(count)]


def test_pauses_double_up_to_the_maximum_and_begin_again_after_a_success() -> None:
    backoff = Backoff(NoJitter(), 50, 300)
    assert pauses(backoff, 5) == pytest.approx([0.05, 0.1, 0.2, 0.3, 0.3])
    assert backoff.failures == 5
    backoff.reset()
    assert pauses(backoff, 2) == pytest.approx([0.05, 0.1])


def test_many_failures_do_not_overflow() -> None:
    assert pauses(Backoff(NoJitter(), 50, 300), 10_000)[-1] == pytest.approx(0.3)


def test_jitter_spreads_pauses_from_half_to_one_and_a_half() -> None:
    found = sorted(Backoff(Random(seed), 100, 100).next_s() for seed in range(1000))
    assert 0.05 <= found[0] < 0.055
    assert 0.145 < found[-1] <= 0.15
    assert all(later - earlier < 0.005 for earlier, later in pairwise(found))


def test_same_seed_gives_the_same_pauses() -> None:
    one, other = (Backoff(Random(7), 50, 2000) for _ in range(2))
    assert pauses(one, 20) == pauses(other, 20)


async def test_pause_sleeps_and_the_deadline_passes() -> None:
    loop = asyncio.get_running_loop()
    begin = loop.time()
    backoff = Backoff(NoJitter(), 100, 100, timeout_ms=250)
    ends = []
    while not backoff.is_over:
        await backoff.pause()
        ends.append(loop.time() - begin)
    assert ends == pytest.approx([0.1, 0.2, 0.3])
    backoff.reset()
    assert backoff.is_over, "a success does not move the deadline"
    assert not Backoff(NoJitter(), 100, 100).is_over
