"""The process file of ``rhumbline dev``: one process per directory, readiness seen by others."""

import os
from pathlib import Path

import pytest

from rhumbline.cli.servers.dev_process import FILE_NAME, DevProcess, locked, running_process
from rhumbline.core.protocol.errors import InvalidArgumentError, RefusedError


def test_process_is_seen_while_it_holds_the_lock(tmp_path: Path) -> None:
    assert running_process(tmp_path) is None
    with locked(tmp_path) as lock:
        assert running_process(tmp_path) == DevProcess(os.getpid(), is_ready=False)
        lock.set_ready()
        assert running_process(tmp_path) == DevProcess(os.getpid(), is_ready=True)
    assert running_process(tmp_path) is None


def test_file_of_a_killed_process_is_ignored(tmp_path: Path) -> None:
    (tmp_path / FILE_NAME).write_text("1 ready\n")
    assert running_process(tmp_path) is None
    with locked(tmp_path):
        assert running_process(tmp_path) == DevProcess(os.getpid(), is_ready=False)


def test_second_process_is_refused(tmp_path: Path) -> None:
    with locked(tmp_path), pytest.raises(RefusedError, match="--stop"), locked(tmp_path):
        pass


def test_missing_directory_is_reported(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgumentError, match="No such file"), locked(tmp_path / "none"):
        pass
    assert running_process(tmp_path / "none") is None
