"""The audit log of a process: its file, its thread and its bounds."""

import json
import os
import threading
from pathlib import Path
from typing import Any

import pytest

from rhumbline.access.audit_log import AuditLog, audit_log_of
from rhumbline.core.protocol.errors import ConfigurationError
from rhumbline.security.audit import AuditEvent, AuditResult
from rhumbline.security.audit_settings import AuditSettings
from rhumbline.tests.support.fakes.recorded_log import recorded_log

ACT = AuditEvent("DeleteStream", AuditResult.DONE, "ada")


def lines_of(path: Path) -> list[dict[str, Any]]:
    """Return the lines of an audit file."""
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_events_are_in_the_file_after_close(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    log = AuditLog(AuditSettings(file=str(path)), "proxy")
    for number in range(100):
        log.record(ACT._replace(request_id=str(number)))
    refusal = ACT._replace(result=AuditResult.REFUSED)
    for _ in range(10):
        log.record(refusal)
    log.close()
    log.close()
    found = lines_of(path)
    assert [line["request_id"] for line in found[:100]] == [str(n) for n in range(100)]
    assert sum(line["count"] for line in found if line["result"] == "refused") == 10
    assert log.statistics() == {"lines": len(found), "dropped": 0}


def test_standard_error_takes_the_lines(capsys: pytest.CaptureFixture[str]) -> None:
    log = audit_log_of(AuditSettings(file="stderr"), "proxy")
    assert log is not None
    log.record(ACT)
    log.close()
    assert json.loads(capsys.readouterr().err)["action"] == "DeleteStream"
    assert audit_log_of(AuditSettings(), "proxy") is None


def test_a_slow_file_drops_lines_and_never_blocks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "audit.jsonl"
    written, go_on = threading.Event(), threading.Event()

    def slow(_: int) -> None:
        written.set()
        go_on.wait(60)

    monkeypatch.setattr(os, "fdatasync", slow)
    log = AuditLog(AuditSettings(file=str(path), queue_lines_max=10), "proxy")
    log.record(ACT)
    assert written.wait(60)
    for _ in range(1_000):
        log.record(ACT)  # would hang here if it waited for the file
    assert log.statistics()["dropped"] == 990
    go_on.set()
    log.close()
    found = lines_of(path)
    assert (found[-1]["action"], found[-1]["count"]) == ("audit", 990)
    assert len(found) == 12


def test_a_file_that_cannot_be_written_is_reported_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(fd: int, data: bytes) -> int:
        raise OSError(28, "No space left on device")

    log = AuditLog(AuditSettings(file=str(tmp_path / "audit.jsonl")), "proxy")
    with recorded_log() as recorded:
        monkeypatch.setattr(os, "write", full)
        log.record(ACT)
        log.close()
    assert recorded.events() == ["audit log not written"]
    assert log.statistics() == {"lines": 0, "dropped": 1}


def test_a_path_that_cannot_be_opened_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"audit\.file: .*No such file"):
        AuditLog(AuditSettings(file=str(tmp_path / "no" / "audit.jsonl")), "proxy")
