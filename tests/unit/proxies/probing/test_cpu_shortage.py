"""A process that waits for a CPU for much of the time is expected to be late."""

import pytest

from rhumbline.proxies.probing.cpu_shortage import CpuShortage


def sampled(shares: list[float]) -> CpuShortage:
    """Return the shortage after some time with each of the shares, for five seconds each."""
    shortage = CpuShortage(0.0, 100.0)
    now_s, waited_s = 0.0, 100.0
    for share in shares:
        for _ in range(10):
            now_s += 0.5
            waited_s += 0.5 * share
            shortage.sample(now_s, waited_s)
    return shortage


def test_usual_waits_are_no_shortage() -> None:
    assert sampled([]).expected_delay_s == 0
    assert sampled([0.02, 0.19, 0.05]).share == pytest.approx(0.19)
    assert sampled([0.02, 0.19, 0.05]).expected_delay_s == 0


def test_worst_share_of_fifteen_seconds_counts() -> None:
    assert sampled([0.3]).expected_delay_s == pytest.approx(1.0)
    assert sampled([0.3, 0.0, 0.0]).expected_delay_s == pytest.approx(1.0)
    assert sampled([0.3, 0.0, 0.0, 0.0]).expected_delay_s == 0


def test_a_shortage_counts_after_a_second() -> None:
    shortage = CpuShortage(0.0, 0.0)
    shortage.sample(0.5, 0.4)
    assert shortage.expected_delay_s == 0
    shortage.sample(1.0, 0.5)
    assert shortage.share == pytest.approx(0.5)


def test_a_stopped_process_does_not_wait() -> None:
    shortage = CpuShortage(0.0, 0.0)
    shortage.sample(60.0, 0.001)
    assert shortage.expected_delay_s == 0
