"""Writers that open a stream together share one read of its policy, but never an error."""

import asyncio

import pytest

from rhumbline.core.log.policy import StreamPolicy
from rhumbline.core.protocol.errors import NoSuchStreamError
from rhumbline.proxies.client.writer_policies import Key, WriterPolicies
from rhumbline.tests.support.fakes.jumping_loop import run_jumping

pytestmark = pytest.mark.run_by(runner=run_jumping)

POLICY = StreamPolicy(roll_bytes=1 << 20)


class SlowReads:
    """Policies that take a second to read; the first ``failing_count`` reads fail."""

    def __init__(self, failing_count: int = 0) -> None:
        self.keys: list[Key] = []
        self.failing_count = failing_count

    async def read(self, key: Key) -> StreamPolicy:
        self.keys.append(key)
        is_failing = len(self.keys) <= self.failing_count
        await asyncio.sleep(1)
        if is_failing:
            raise NoSuchStreamError(f"no stream {key[1]}")
        return POLICY


async def test_writers_that_open_together_share_one_read_of_each_stream() -> None:
    reads = SlowReads()
    policies = WriterPolicies(reads.read)
    opening = [policies.policy_of(("ns", f"s{number % 2}")) for number in range(100)]
    assert await asyncio.gather(*opening) == [POLICY] * 100
    assert reads.keys == [("ns", "s0"), ("ns", "s1")]
    await policies.policy_of(("ns", "s0"))
    assert len(reads.keys) == 3


async def test_an_error_is_not_shared_because_it_may_be_outdated() -> None:
    reads = SlowReads(failing_count=1)
    policies = WriterPolicies(reads.read)
    found = await asyncio.gather(
        *(policies.policy_of(("ns", "s")) for _ in range(3)), return_exceptions=True
    )
    assert [type(one) for one in found] == [NoSuchStreamError, StreamPolicy, StreamPolicy]
    assert len(reads.keys) == 3


async def test_a_cancelled_opening_does_not_disturb_those_that_wait_for_its_read() -> None:
    reads = SlowReads()
    policies = WriterPolicies(reads.read)
    first, second, third = (asyncio.ensure_future(policies.policy_of(("ns", "s"))) for _ in "123")
    await asyncio.sleep(0.1)
    third.cancel()
    first.cancel()
    assert await asyncio.wait_for(second, 5) == POLICY
    assert len(reads.keys) == 2
