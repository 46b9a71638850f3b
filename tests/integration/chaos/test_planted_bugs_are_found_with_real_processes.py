"""The checker finds two planted bugs in runs with real processes."""

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


def play_with_bug(bug: str, scenario: str, folder: Path) -> tuple[int, ScenarioOutcome]:
    """Play a scenario in a copy of the package with the bug; return exit code and outcome."""
    servers = started(installs.toxiproxy_binary).parent.parent
    copy_with(load(bug), folder)
    report = folder / "report"
    command = [sys.executable, "-c", PROGRAM, "chaos", "run", scenario, "--world", "wan"]
    command += ["--report", str(report), "--servers", str(servers)]
    environment = {**os.environ, "PYTHONPATH": str(folder), "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(
        command, env=environment, cwd=folder, capture_output=True, timeout=280, text=True
    )
    (outcome,) = load_folder(report)
    print(done.stderr)
    return done.returncode, outcome


@pytest.mark.long
@pytest.mark.needs_server("toxiproxy")
@pytest.mark.parametrize(
    ("bug", "scenario"),
    [("ack-before-sync", "disks-slow"), ("ack-without-p", "two-regions-apart")],
)
def test_the_checker_finds_the_bug(bug: str, scenario: str, tmp_path: Path) -> None:
    code, outcome = play_with_bug(bug, scenario, tmp_path)
    assert code == 1
    assert not outcome.broke
    assert outcome.acked > 100
    broken = {
        invariant.id: invariant.violations
        for invariant in outcome.invariants
        if invariant.violations
    }
    assert "R1" in broken, outcome.problems
