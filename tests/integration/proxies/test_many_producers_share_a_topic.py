"""A short form of `make shared-topic`: few programs, one kill of each kind."""

from pathlib import Path

import pytest

from rhumbline.bench.shared_topic.shared_topic import Plan, SharedTopic

pytestmark = [pytest.mark.long, pytest.mark.timeout(400)]


def test_nothing_is_lost_or_reordered_while_processes_are_killed(tmp_path: Path) -> None:
    plan = Plan(
        seconds=40, producers=4, consumers=3, partitions=8, proxies=2, bookies=4, kill_s=4.0
    )
    outcome = SharedTopic(plan, tmp_path / "run").run()
    print(outcome)
    assert outcome.verdict.lost == ()
    assert outcome.verdict.out_of_order == ()
    assert outcome.verdict.stored_twice == ()
    assert outcome.is_clean
    assert outcome.verdict.acknowledged > 0
    assert outcome.killed.keys() == {"consumer", "producer", "proxy", "bookie"}
