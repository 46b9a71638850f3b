"""Two bugs planted in a copy of the package: real processes and the checker find them."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from rhumbline.chaos.lab.report.scenario_outcome import ScenarioOutcome, load_folder
from rhumbline.chaos.planted_bugs.patch import copy_with, load
from rhumbline.tests.support.servers import installs
from rhumbline.tests.support.servers.metadata_servers import started

PROGRAM = "from rhumbline.cli import main; main()"


def played_in_copy(mutation: str, scenario: str, folder: Path) -> tuple[int, ScenarioOutcome]:
    """Exit code and outcome of a run with the bug."""
    servers = started(installs.toxiproxy_binary).parent.parent
    copy_with(load(mutation), folder)
    report = folder / "report"
    command = [sys.executable, "-c", PROGRAM, "chaos", "run", scenario, "--world", "wan"]
    command += ["--report", str(report), "--servers", str(servers)]
    environment = {**os.environ, "PYTHONPATH": str(folder), "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(
        command, env=environment, cwd=folder, capture_output=True, timeout=110, text=True
    )
    (outcome,) = load_folder(report)
    print(done.stderr)
    return done.returncode, outcome


@pytest.mark.needs_server("toxiproxy")
@pytest.mark.parametrize(
    ("mutation", "scenario"),
    [("ack-before-sync", "disks-slow"), ("ack-without-p", "two-regions-apart")],
)
def test_the_checker_finds_it(mutation: str, scenario: str, tmp_path: Path) -> None:
    code, outcome = played_in_copy(mutation, scenario, tmp_path)
    assert code == 1
    assert not outcome.broke
    assert outcome.acked > 100
    broken = {one.id: one.violations for one in outcome.invariants if one.violations}
    assert "R1" in broken, outcome.faults
