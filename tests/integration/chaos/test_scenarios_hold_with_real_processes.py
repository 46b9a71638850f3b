"""Plays every scenario that supports it with real processes over toxiproxy."""

import asyncio
from pathlib import Path

import pytest

from rhumbline.chaos.lab import scenario_library
from rhumbline.chaos.lab.report.judgement import outcome_of
from rhumbline.chaos.lab.scenario import ETCD, WAN, ZOOKEEPER
from rhumbline.chaos.lab.wan.wan_run import play_in_wan
from rhumbline.tests.support.servers import installs
from rhumbline.tests.support.servers.metadata_servers import started

QUICK = "region-lost-under-load"
"""The scenario that `make test` plays; `make test-long` plays the others."""
SCENARIOS = [name for name in scenario_library.names() if WAN in scenario_library.load(name).worlds]


INSTALLS = {ETCD: installs.etcd_binary, ZOOKEEPER: installs.zookeeper_jars}


def marked(name: str) -> object:
    """Return a scenario's parameter with the marks of its tier and of the servers that it uses."""
    marks = [pytest.mark.long] if name != QUICK else []
    store = scenario_library.load(name).topology.metadata
    if store in INSTALLS:
        marks.append(pytest.mark.needs_server(store))
    return pytest.param(name, marks=marks)


@pytest.mark.needs_server("toxiproxy")
@pytest.mark.timeout(300)
@pytest.mark.parametrize("name", [marked(name) for name in SCENARIOS])
def test_invariants_and_expectations_hold(name: str, tmp_path: Path) -> None:
    scenario = scenario_library.load(name)
    servers = started(installs.toxiproxy_binary).parent.parent
    if scenario.topology.metadata in INSTALLS:
        started(INSTALLS[scenario.topology.metadata])
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
