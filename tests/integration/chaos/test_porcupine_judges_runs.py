"""Porcupine, which others wrote, finds simulated runs linearizable, and finds planted bugs."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from rhumbline.chaos.linearizability import verdicts
from rhumbline.chaos.linearizability.operations import LogOperation
from rhumbline.chaos.linearizability.verdicts import (
    PLANS_USED,
    StreamOperations,
    judge_histories,
    record_seed,
)
from rhumbline.chaos.planted_bugs.patch import copy_with, load
from rhumbline.tests.support.servers.installs import NotInstalledError, require

pytestmark = pytest.mark.long


@pytest.fixture(scope="module", autouse=True)
def needs_go() -> None:
    try:
        require("go")
    except NotInstalledError as error:
        if os.environ.get("CI", "").lower() == "true":
            pytest.fail(str(error))
        pytest.skip(str(error))


@pytest.fixture(scope="module")
def recorded() -> StreamOperations:
    return record_seed("conditions", 1)


def fourth(kind: str, operations: list[LogOperation]) -> LogOperation:
    return [operation for operation in operations if operation["kind"] == kind][3]


def replaced(
    operations: list[LogOperation], old: LogOperation, new: LogOperation
) -> list[LogOperation]:
    return [new if operation is old else operation for operation in operations]


def test_the_model_passes_its_unit_tests() -> None:
    module = Path(verdicts.__file__).parent / "porcupine"
    done = subprocess.run(
        ["go", "test", "./..."], cwd=module, capture_output=True, text=True, timeout=280
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_runs_of_each_plan_are_linearizable(tmp_path: Path) -> None:
    histories = [record_seed(plan, 1) for plan in PLANS_USED]
    found = list(judge_histories(histories, tmp_path))
    assert [one.verdict for one in found] == ["Ok"] * len(PLANS_USED), found
    total = sum(one.operations for one in found)
    print(f"{total} operations of {len(found)} streams are linearizable")
    assert total > 1_000


def test_each_kind_of_violation_is_found(tmp_path: Path, recorded: StreamOperations) -> None:
    whole = recorded.operations
    appended, read = fourth("append", whole), fourth("read", whole)
    early, skipping = read.copy(), read.copy()
    early["called"], early["returned"] = -2, -1
    skipping["start"] = [0, 0, 0]
    changed = {
        "a record that was never appended is read": [one for one in whole if one is not appended],
        "a record is read before it was appended": replaced(whole, read, early),
        "a reader skips records": replaced(whole, read, skipping),
    }
    histories = [StreamOperations(name, 1, operations) for name, operations in changed.items()]
    for found in judge_histories(histories, tmp_path):
        assert found.verdict == "Illegal", found
        assert found.first, found


@pytest.mark.parametrize(
    ("bug", "plan", "first"),
    [("condition-without-takeover", "conditions", 11), ("ack-before-seal", "races", 2)],
)
def test_planted_bugs_are_found(bug: str, plan: str, first: int, tmp_path: Path) -> None:
    copy = copy_with(load(bug), tmp_path)
    command = [sys.executable, "-O", "-m", "rhumbline.chaos.linearizability", plan]
    command += ["--seed", str(first), "--operations", "1"]
    environment = {**os.environ, "PYTHONPATH": str(copy), "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(
        command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=280
    )
    assert done.returncode == 1, done.stdout + done.stderr
    assert f"{plan} {first}: Illegal" in done.stdout
