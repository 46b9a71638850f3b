"""Tests of managed processes, with real processes of a shell or of Python."""

import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from rhumbline.chaos.managed_process import ManagedProcess
from rhumbline.core.protocol.errors import UnavailableError

SERVES = "echo serving at 127.0.0.1:$$; exec sleep 600"
STARTS_AND_WAITS = """
import sys, time
from pathlib import Path
from rhumbline.chaos.managed_process import ManagedProcess
process = ManagedProcess("inner", ["sleep", "600"], Path(sys.argv[1]))
process.start()
print(process.pid, flush=True)
time.sleep(600)
"""


class Shell(ManagedProcess):
    """A shell that runs a script, with its log below the test's directory."""

    def __init__(
        self,
        folder: Path,
        script: str,
        *,
        ready: str = "",
        ready_s_max: float = 60.0,
        has_dialogue: bool = False,
    ) -> None:
        super().__init__(
            "shell",
            ["sh", "-c", script],
            folder / "shell.log",
            ready=ready,
            ready_s_max=ready_s_max,
            environ={"RHUMBLINE_WANTED": "yes"},
            has_input=has_dialogue,
            has_output=has_dialogue,
        )


@pytest.fixture
def serving(tmp_path: Path) -> Iterator[ManagedProcess]:
    with Shell(tmp_path, SERVES, ready="^serving") as process:
        yield process


def state_of(pid: int) -> str:
    """Return the kernel's letter for the state of a process, "" if there is none."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return ""


def wait_state(pid: int, *states: str) -> None:
    deadline = time.monotonic() + 30
    while state_of(pid) not in states:
        assert time.monotonic() < deadline, f"process {pid} is {state_of(pid)!r}"
        time.sleep(0.01)


def test_it_is_ready_once_its_output_says_so(serving: ManagedProcess) -> None:
    assert serving.is_running
    assert serving.exit_code is None
    assert serving.find(r"serving at (\S+)") == f"127.0.0.1:{serving.pid}"
    assert serving.find("absent") is None
    assert repr(serving) == f"<shell: pid {serving.pid}>"


def test_a_function_may_tell_that_it_is_ready(tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    process = ManagedProcess(
        "shell", ["sh", "-c", f"touch {mark}; sleep 600"], tmp_path / "log", ready=mark.exists
    )
    with process:
        assert mark.exists()


def test_error_of_a_process_that_dies_has_its_exit_code_and_last_lines(tmp_path: Path) -> None:
    process = Shell(tmp_path, "seq 100; echo no disk >&2; exit 7", ready="serving")
    with pytest.raises(UnavailableError) as refusal:
        process.start()
    assert "shell did not start: exit code 7" in str(refusal.value)
    assert str(refusal.value).endswith("99\n100\nno disk")
    assert "\n80\n" not in str(refusal.value), "only the end of the log"
    assert process.exit_code == 7


def test_process_that_is_late_is_killed(tmp_path: Path) -> None:
    process = Shell(tmp_path, "echo reading; exec sleep 600", ready="serving", ready_s_max=0.1)
    with pytest.raises(UnavailableError, match=r"shell was not ready in 0.1 s:"):
        process.start()
    assert not process.is_running
    assert process.exit_code == -signal.SIGKILL


def test_restart_uses_the_same_arguments_and_forgets_earlier_output(tmp_path: Path) -> None:
    process = Shell(tmp_path, SERVES, ready="^serving")
    process.start()
    first = process.pid
    process.kill()
    process.start()
    assert process.find("serving at 127.0.0.1:(.*)") == str(process.pid) != str(first)
    assert str(first) in process.log.read_text(), "the log keeps it"
    process.kill()


def test_process_that_ended_may_be_started_again(tmp_path: Path) -> None:
    process = Shell(tmp_path, "exit 3")
    for _ in range(2):
        process.launch()
        assert process.wait(30) == 3
    assert process.stop() == 3


def test_stop_is_orderly_and_may_be_repeated(tmp_path: Path) -> None:
    process = Shell(tmp_path, "trap 'exit 5' TERM; echo serving; while :; do sleep 0.01; done")
    assert process.stop() is None, "it was never started"
    process._ready = "serving"
    process.start()
    assert process.stop(30) == 5
    assert process.stop() == 5
    assert process.kill() == 5


def test_stop_kills_what_ignores_it(tmp_path: Path) -> None:
    process = Shell(tmp_path, "trap '' TERM; echo serving; exec sleep 600", ready="serving")
    process.start()
    assert process.stop(0.1) == -signal.SIGKILL


def test_paused_process_is_running_and_can_be_resumed_stopped_and_killed(
    serving: ManagedProcess,
) -> None:
    serving.pause()
    assert state_of(serving.pid) == "T"
    assert serving.is_running
    serving.resume()
    wait_state(serving.pid, "S")
    serving.pause()
    assert serving.stop(30) == -signal.SIGTERM
    serving.start()
    serving.pause()
    assert serving.kill() == -signal.SIGKILL


def test_waiting_for_the_end_has_a_deadline(serving: ManagedProcess) -> None:
    with pytest.raises(UnavailableError, match=r"shell did not end in 0.1 s:\nserving at"):
        serving.wait(0.1)
    os.kill(serving.pid, signal.SIGTERM)
    assert serving.wait(30) == -signal.SIGTERM


@pytest.mark.parametrize("ends_first", [False, True])
def test_children_of_the_process_are_killed_with_it(tmp_path: Path, ends_first: bool) -> None:
    process = Shell(tmp_path, "sleep 600 & echo $!; read line", has_dialogue=True)
    process.start()
    child = int(process.read_line())
    assert state_of(child) in ("R", "S", "D")
    if ends_first:
        process.write_line(b"end")
        assert process.wait(30) == 0
    else:
        process.kill()
    wait_state(child, "", "Z")


def test_process_dies_with_a_parent_that_is_killed(tmp_path: Path) -> None:
    parent = ManagedProcess(
        "parent",
        [sys.executable, "-c", STARTS_AND_WAITS, str(tmp_path / "inner.log")],
        tmp_path / "parent.log",
        ready=r"^\d+$",
    )
    with parent:
        inner = int(parent.output)
        os.kill(parent.pid, signal.SIGKILL)
        wait_state(inner, "", "Z")


def test_process_survives_the_thread_that_started_it(tmp_path: Path) -> None:
    """The kernel's request to die is tied to the thread that forked, not to the process."""
    process = Shell(tmp_path, SERVES, ready="^serving")
    thread = threading.Thread(target=process.start)
    thread.start()
    thread.join()
    time.sleep(0.1)
    assert process.is_running
    process.kill()


def test_environment_is_free_of_settings_except_the_given_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RHUMBLINE_STRAY", "no")
    monkeypatch.setenv("OTHER", "kept")
    process = Shell(tmp_path, 'echo "[$RHUMBLINE_STRAY$RHUMBLINE_WANTED$OTHER]"')
    process.launch()
    assert process.wait(30) == 0
    assert process.output == "[yeskept]\n"


def test_dialogue_by_lines_until_the_process_has_ended(tmp_path: Path) -> None:
    process = Shell(tmp_path, "echo starts >&2; read a; echo $a-; read b", has_dialogue=True)
    with process:
        process.write_line(b"one")
        assert process.read_line() == b"one-"
        process.write_line(b"two")
        with pytest.raises(UnavailableError, match="shell has ended:\nstarts"):
            process.read_line()


def test_a_running_process_is_not_started_twice(serving: ManagedProcess) -> None:
    with pytest.raises(AssertionError, match="shell is already running"):
        serving.launch()
