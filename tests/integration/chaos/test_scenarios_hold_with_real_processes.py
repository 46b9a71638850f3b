"""A selection of scenarios with real processes over toxiproxy; `make chaos-all` plays all."""

import asyncio
from pathlib import Path

import pytest

from rhumbline.chaos.lab import scenario_library
from rhumbline.chaos.lab.report.judgement import outcome_of
from rhumbline.chaos.lab.scenario import ETCD
from rhumbline.chaos.lab.wan.wan_run import play_in_wan
from rhumbline.tests.support.servers import installs
from rhumbline.tests.support.servers.metadata_servers import started

SELECTION = [
    "region-lost-under-load",
    "owners-region-lost",
    "owners-region-cut-off",
    "metadata-leaders-region-lost",
    "everything-at-work",
    "wiped-bookie-returns",
    "rolling-restart",
    "wan-200ms",
]


@pytest.mark.needs_server("toxiproxy")
@pytest.mark.needs_server("etcd")
@pytest.mark.timeout(240)
@pytest.mark.parametrize("name", SELECTION)
def test_invariants_and_expectations_hold(name: str, tmp_path: Path) -> None:
    scenario = scenario_library.load(name)
    servers = started(installs.toxiproxy_binary).parent.parent
    if scenario.topology.metadata == ETCD:
        started(installs.etcd_binary)
    play = asyncio.run(play_in_wan(scenario, 1, servers=servers, keep=tmp_path / "lab"))
    outcome = outcome_of(play)
    assert outcome.problems == [], "\n".join(outcome.lines[-40:])
    assert outcome.acked > 0 and outcome.lost == 0 and outcome.doubled == 0
    judged = {invariant.id for invariant in outcome.invariants if invariant.is_judged}
    assert {"G1", "G2", "G3", "G4", "L1", "L2", "L3", "L11", "R1"} <= judged
    assert play.record is not None and any(play.record.copies.values()), (
        "entries of bookies were read"
    )
    assert set(outcome.series) == set(scenario.topology.regions)
