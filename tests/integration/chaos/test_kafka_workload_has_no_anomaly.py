"""A short form of `make kafka`: one fault of each kind."""

from pathlib import Path

import pytest

from rhumbline.chaos.kafka.kafka_run import FAULTS, KafkaPlan, KafkaRun

pytestmark = [pytest.mark.long, pytest.mark.timeout(400)]


def test_clients_of_proxies_see_no_anomaly_while_processes_are_killed(tmp_path: Path) -> None:
    outcome = KafkaRun(KafkaPlan(seconds=60, clients=1, fault_s=3.0), tmp_path / "run").run()
    print(outcome)
    assert outcome.report.anomalies == {}
    assert outcome.faults.keys() == set(FAULTS)
    assert outcome.report.operations["Send ok"] > 0
    assert outcome.report.operations["CommitOffset"] > 0
    assert outcome.report.polled > outcome.report.messages > 0
