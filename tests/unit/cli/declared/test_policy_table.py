from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rhumbline.cli.declared.policy_table import Faults, flat_policy, policy_keys, read_policy
from rhumbline.core.log.policy import FlushPolicy, StreamPolicy
from rhumbline.core.protocol.compression import Codec
from rhumbline.core.protocol.quorum import Quorum

BASE = StreamPolicy()
POLICIES = st.builds(
    StreamPolicy,
    quorum=st.sampled_from([Quorum(3, 3, 2), Quorum(3, 3, 2, 2), Quorum(2, 2, 1), Quorum(1, 1, 1)]),
    flush=st.builds(
        FlushPolicy,
        period_ms=st.none() | st.integers(0, 60_000),
        bytes_max=st.integers(1, 1_000_000),
    ),
    codec=st.sampled_from(Codec),
    roll_bytes=st.sampled_from([1, 1000, 1 << 20, 1 << 40]),
    retention_ms=st.none() | st.sampled_from([1, 1500, 60_000, 7 * 86_400_000]),
    keepalive_ms=st.none() | st.integers(10, 10_000),
    truncates_by_subscriptions=st.booleans(),
    regions=st.sampled_from([(), ("eu", "us"), ("us", "eu")]),
)


def read(table: dict[str, Any]) -> StreamPolicy:
    faults: Faults = {}
    found = read_policy(table, faults)
    assert not faults
    return found.over(BASE)


@given(POLICIES, POLICIES)
def test_written_keys_give_the_policy_again(policy: StreamPolicy, base: StreamPolicy) -> None:
    faults: Faults = {}
    table = read_policy(policy_keys(policy, base), faults)
    assert not faults
    assert not table.is_empty
    assert table.over(base) == policy


def test_values_have_units() -> None:
    policy = read({"quorum": "3/3/2/2", "retention_ms": "7d", "flush": {"period_ms": "10ms"}})
    assert policy.quorum == Quorum(3, 3, 2, 2)
    assert policy.retention_ms == 7 * 86_400_000
    assert policy.flush.period_ms == 10
    assert policy_keys(policy, BASE) == {
        "quorum": "3/3/2/R2",
        "flush": {"period_ms": "10ms"},
        "retention_ms": "7d",
    }
    assert flat_policy(policy)["flush.period_ms"] == "10ms"
    assert flat_policy(replace(BASE, regions=("eu", "us")))["regions"] == "eu, us"


@pytest.mark.parametrize(
    "table, key, text",
    [
        ({"quorm": "3/3/2"}, ("quorm",), "unknown key quorm; did you mean quorum?"),
        ({"quorum": 3}, ("quorum",), "3 is not a string like 3/3/2/2"),
        ({"quorum": "3/3/1"}, ("quorum",), "unsafe_ack_1 = true"),
        ({"quorum": "2/3/2"}, ("quorum",), "WQ=3 is above E=2"),
        ({"roll_bytes": 0}, ("roll_bytes",), "0 is not between 1 and"),
        ({"retention_ms": "soon"}, ("retention_ms",), "soon"),
        ({"regions": "eu"}, ("regions",), "'eu' is not a list"),
        ({"flush": 3}, ("flush",), "3 is not a table"),
        ({"flush": {"period": 1}}, ("flush", "period"), "unknown key period"),
        ({"flush": {"bytes_max": "0B"}}, ("flush", "bytes_max"), "0 is not between"),
        ({"unsafe_ack_1": 1}, ("unsafe_ack_1",), "1 is not true or false"),
    ],
)
def test_wrong_keys_are_named(table: dict[str, Any], key: tuple[str, ...], text: str) -> None:
    faults: Faults = {}
    read_policy(table, faults)
    assert text in faults[key]


def test_a_quorum_with_one_acknowledgement_must_be_confirmed() -> None:
    policy = read({"quorum": "2/2/1", "unsafe_ack_1": True})
    assert policy_keys(policy, BASE) == {"quorum": "2/2/1/R1", "unsafe_ack_1": True}
