"""The example of a night's jobs ends with equal counts, although its processes are killed."""

import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from rhumbline.chaos.managed_process import ManagedProcess

SCRIPT = Path(__file__).parents[3] / "docs/examples/night/night.sh"
START_S, NIGHT_S = 120.0, 840.0


@pytest.fixture
def night(tmp_path: Path) -> Iterator[ManagedProcess]:
    """The script, which ends with this process, in a process group that the fixture ends."""
    binaries = Path(sys.executable).parent
    environ = {"PATH": f"{binaries}:{os.environ['PATH']}", "PYSPARK_PYTHON": sys.executable}
    command = ["bash", str(SCRIPT), str(tmp_path / "night")]
    process = ManagedProcess("night", command, tmp_path / "log", environ=environ)
    process.start()
    yield process
    process.kill()


def wait_for(night: ManagedProcess, text: str, seconds: float) -> None:
    """Wait until the script has printed a text, or has ended."""
    end = time.monotonic() + seconds
    while text not in night.output and night.is_running:
        assert time.monotonic() < end, night.output
        time.sleep(0.2)


def processes_of(folder: Path) -> list[int]:
    """Return the processes that work in a folder."""
    found = []
    for link in Path("/proc").glob("[0-9]*/cwd"):
        try:
            if link.readlink() == folder:
                found.append(int(link.parent.name))
        except OSError:
            continue  # it has ended, or is not ours
    return found


def wait_until_none_is_left(folder: Path) -> None:
    """Wait until no process works in a folder; Spark's own end a moment after their driver."""
    end = time.monotonic() + START_S
    while left := processes_of(folder):
        assert time.monotonic() < end, left
        time.sleep(0.2)


@pytest.mark.long
@pytest.mark.timeout(900)
def test_the_counts_of_a_night_are_equal(night: ManagedProcess, tmp_path: Path) -> None:
    wait_for(night, "all counts are equal", NIGHT_S)
    while night.is_running:
        time.sleep(0.1)
    log = (tmp_path / "night/night.log").read_text()
    assert night.exit_code == 0, (night.output, log[-3000:])
    print(night.output)
    assert night.output.count("killed the archiver") == 2
    assert night.output.count("killed the driver") == 2
    wait_until_none_is_left(tmp_path / "night")


@pytest.mark.long
def test_a_night_that_is_killed_leaves_no_process(night: ManagedProcess, tmp_path: Path) -> None:
    wait_for(night, "three regions write", START_S)
    assert len(processes_of(tmp_path / "night")) > 1
    os.kill(night.pid, 9)  # the script alone, not its group
    wait_until_none_is_left(tmp_path / "night")
