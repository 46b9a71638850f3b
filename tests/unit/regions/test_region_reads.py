"""Read order and speculation: nearest first, then other racks and regions; slow replicas sink."""

import asyncio
from random import Random

import pytest

from rhumbline.core.ledger.read_policy import ReadKind, ReplicaChoice
from rhumbline.core.protocol.bookie_id import BookieId, Region
from rhumbline.core.protocol.errors import ConfigurationError
from rhumbline.regions.region_reads import ReadSettings, RegionReads
from rhumbline.tests.support.fakes.jumping_loop import run_jumping

pytestmark = pytest.mark.run_by(runner=run_jumping)

RACKS = {"a0": "r0", "a1": "r0", "a2": "r1", "b0": "r0", "b1": "r1", "c0": "r0"}
CHOICES = [
    ReplicaChoice(index, BookieId(name), name[0], has_failed=False)
    for index, name in enumerate(RACKS)
]
BY_NAME = {str(choice.bookie): choice for choice in CHOICES}


class WithoutJitter(Random):
    def random(self) -> float:
        return 0.5


def reads(
    seed: int = 1,
    settings: ReadSettings | None = None,
    offline: str | None = None,
    random_class: type[Random] = Random,
) -> RegionReads:
    return RegionReads(
        Region("a"),
        random_class(seed),
        settings,
        rack_of=RACKS.get,
        is_offline=lambda region: region == offline,
    )


def names(found: list[ReplicaChoice]) -> list[str]:
    return [str(choice.bookie) for choice in found]


def measured(policy: RegionReads, **region_ms: float) -> RegionReads:
    for region, took_ms in region_ms.items():
        for _ in range(30):
            policy.on_response(ReadKind.ENTRY, BY_NAME[f"{region}0"], took_ms, 1)
    return policy


async def test_own_region_first_then_another_rack_then_another_region() -> None:
    for seed in range(20):
        policy = measured(reads(seed), b=20, c=80)
        found = names(policy.order(CHOICES))
        assert found[0][0] == "a"
        assert found[1][0] == "a"
        assert RACKS[found[0]] != RACKS[found[1]]
        assert found[2][0] == "b", "the nearest of the other regions"
        assert sorted(found) == sorted(RACKS)


async def test_replicas_of_equal_latency_take_turns() -> None:
    policy = measured(reads(), b=20, c=80)
    firsts = {names(policy.order(CHOICES))[0] for _ in range(50)}
    assert firsts == {"a0", "a1", "a2"}


async def test_unmeasured_region_is_tried_before_a_far_one() -> None:
    policy = measured(reads(), c=80)
    remote = [BY_NAME["b0"], BY_NAME["c0"]]
    assert names(policy.order(remote)) == ["b0", "c0"]
    measured(policy, b=160)
    assert names(policy.order(remote)) == ["c0", "b0"]


async def test_slow_replica_sinks_longer_each_time_and_recovers() -> None:
    policy = measured(reads(random_class=WithoutJitter), b=20)
    pair = [BY_NAME["a0"], BY_NAME["b0"]]
    for lasts_s in (1, 2, 4, 8, 16, 30, 30):
        policy.on_outrun(BY_NAME["a0"])
        policy.on_outrun(BY_NAME["a0"])  # another read in flight adds nothing
        await asyncio.sleep(lasts_s - 0.01)
        assert names(policy.order(pair)) == ["b0", "a0"]
        await asyncio.sleep(0.02)
        assert names(policy.order(pair)) == ["a0", "b0"], "one read probes it"
        assert names(policy.order(pair)) == ["b0", "a0"], "the other reads wait for the result"
    policy.on_response(ReadKind.ENTRY, BY_NAME["a0"], 0.4, 1)
    assert names(policy.order(pair)) == ["a0", "b0"]
    assert policy.counts.recovered == 1


async def test_replicas_of_an_offline_region_are_asked_last() -> None:
    policy = reads(offline="a")
    policy.on_failure(BY_NAME["b0"])
    assert names(policy.order([BY_NAME["a0"], BY_NAME["b0"], BY_NAME["c0"]])) == ["c0", "b0", "a0"]


async def test_silence_is_the_p99_of_the_region_with_a_floor_and_doubles() -> None:
    policy = reads()
    first, far = BY_NAME["a0"], BY_NAME["b0"]
    assert policy.silence_ms(ReadKind.ENTRY, far, 1) == 500, "nothing was measured"
    assert policy.silence_ms(ReadKind.ENTRY, first, 1) == 100, "a local replica should be quick"
    measured(policy, a=0.4, b=80)
    assert policy.silence_ms(ReadKind.ENTRY, first, 1) == 10
    assert 80 <= policy.silence_ms(ReadKind.ENTRY, far, 1) <= 100
    assert policy.silence_ms(ReadKind.ENTRY, first, 2) == 20
    assert policy.silence_ms(ReadKind.ENTRY, first, 3) == 0, "at most three requests"
    assert policy.silence_ms(ReadKind.POLL, first, 1) == 1000
    assert policy.silence_ms(ReadKind.POLL, first, 2) == 2000


async def test_replica_that_slows_down_does_not_raise_its_own_limit() -> None:
    policy = measured(reads(), a=2, b=80)
    for _ in range(10):
        policy.on_response(ReadKind.ENTRY, BY_NAME["a0"], 450, 1)
        policy.on_response(ReadKind.ENTRY, BY_NAME["b0"], 3000, 1)
    assert policy.silence_ms(ReadKind.ENTRY, BY_NAME["a0"], 1) <= 20
    assert policy.silence_ms(ReadKind.ENTRY, BY_NAME["b0"], 1) <= 8 * 100
    for _ in range(1000):
        policy.on_response(ReadKind.ENTRY, BY_NAME["a0"], 450, 1)
    assert policy.silence_ms(ReadKind.ENTRY, BY_NAME["a0"], 1) == 100


async def test_extra_requests_are_a_share_of_the_reads() -> None:
    policy = reads(settings=ReadSettings(extra_percent=5, extra_per_second=0))
    allowed = 0
    for _ in range(2000):
        policy.on_response(ReadKind.ENTRY, BY_NAME["a0"], 1.0, 1)
        allowed += policy.may_send_more(ReadKind.ENTRY)
    assert 100 <= allowed <= 110, "5 % of 2000, and the burst of 10"
    assert policy.counts.extra == allowed
    assert policy.counts.extra_refused == 2000 - allowed


async def test_rare_reads_always_have_budget_for_one_extra_request() -> None:
    policy = reads()
    for _ in range(60):
        await asyncio.sleep(1)
        assert policy.may_send_more(ReadKind.POLL)


def test_settings_report_all_faults() -> None:
    with pytest.raises(
        ConfigurationError,
        match=r"floor_ms=-1 is not at least 0 ms; tries_max=0 is not at",
    ):
        ReadSettings(floor_ms=-1, tries_max=0)
