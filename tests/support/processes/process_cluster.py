"""A cluster of real bookie processes on loopback, which tests kill and restart."""

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

RHUMBLINE = Path(sys.executable).parent / "rhumbline"
_START_SECONDS_MAX = 120


def rhumbline(
    *arguments: str,
    stdin: bytes = b"",
    environ: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    timeout_s: float = 60,
) -> subprocess.CompletedProcess[bytes]:
    """Run a command to its end."""
    return subprocess.run(
        [str(RHUMBLINE), *arguments],
        input=stdin,
        capture_output=True,
        timeout=timeout_s,
        check=False,
        cwd=cwd,
        env=_environment(environ),
    )


def succeeded(*arguments: str, stdin: bytes = b"", cwd: Path | None = None) -> bytes:
    """Run a command that must succeed, and return its output."""
    done = rhumbline(*arguments, stdin=stdin, cwd=cwd)
    assert done.returncode == 0, f"{arguments}: {done.stderr.decode()}"
    return done.stdout


def refusal(
    *arguments: str,
    stdin: bytes = b"",
    environ: Mapping[str, str] | None = None,
    cwd: Path | None = None,
) -> tuple[int, str]:
    """Run a command that must fail without a traceback; return exit code and last line."""
    done = rhumbline(*arguments, stdin=stdin, environ=environ, cwd=cwd)
    text = done.stderr.decode()
    assert done.returncode != 0, f"{arguments} succeeded: {done.stdout.decode()[:500]}"
    assert "Traceback" not in text, text
    return done.returncode, text.rstrip().rpartition("\n")[2]


class BookieProcess:
    """A bookie: a directory, and the process that serves it while it is started."""

    def __init__(
        self, directory: Path, metadata: str, *, environ: Mapping[str, str] | None = None
    ) -> None:
        self.directory = directory
        self._metadata = metadata
        self._environ = dict(environ or {})
        self._process: subprocess.Popen[bytes] | None = None
        self._log = directory.with_suffix(".log")

    @property
    def pid(self) -> int:
        """Id of the process that runs now."""
        assert self._process is not None
        return self._process.pid

    @property
    def output(self) -> str:
        """What the process that was started last has printed."""
        return self._log.read_text()

    def start(self) -> None:
        """Start the process and wait until it serves."""
        assert self._process is None
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                [
                    str(RHUMBLINE), "bookie", "run", str(self.directory),
                    "-u", self._metadata, "--port", "0",
                ],
                stdout=log,
                stderr=log,
                stdin=subprocess.DEVNULL,
                env=_environment(self._environ),
            )  # fmt: skip
        deadline = time.monotonic() + _START_SECONDS_MAX
        while not re.search(rb"^bookie \S+ serves ", self._log.read_bytes(), re.MULTILINE):
            assert self._process.poll() is None, self._log.read_text()
            assert time.monotonic() < deadline, f"not up: {self._log.read_text()}"
            time.sleep(0.02)

    def kill(self) -> None:
        """Send SIGKILL and wait for the end. Safe to repeat."""
        self._end(signal.SIGKILL)

    def stop(self) -> None:
        """Send SIGTERM and wait for an orderly end. Safe to repeat."""
        self._end(signal.SIGTERM)

    def _end(self, number: signal.Signals) -> None:
        if self._process is not None:
            process, self._process = self._process, None
            process.send_signal(number)
            process.wait(timeout=30)


class ProcessCluster:
    """A metadata store in a file and one bookie process for each of ``regions``, below ``root``.

    ``root`` is removed at the end, unless the test failed.
    """

    def __init__(
        self,
        root: Path,
        regions: Sequence[str],
        *,
        environ: Mapping[str, str] | None = None,
    ) -> None:
        self.root = root
        self.regions = tuple(regions)
        self.metadata = f"sqlite://{root}/metadata.db"
        self.bookies = [
            BookieProcess(root / f"b{number}", self.metadata, environ=environ)
            for number in range(len(regions))
        ]

    def start(self) -> None:
        """Initialise the cluster, format and start the bookies, create namespace ``default``."""
        self.root.mkdir(parents=True, exist_ok=True)
        succeeded("cluster", "init", "-u", self.metadata)
        for number, (region, bookie) in enumerate(zip(self.regions, self.bookies, strict=True)):
            succeeded(
                "bookie", "format", str(bookie.directory), "--name", f"b{number}",
                "--region", region, "-u", self.metadata,
            )  # fmt: skip
            bookie.start()
        self.run("namespace", "create", "default")

    def run(self, *arguments: str, stdin: bytes = b"") -> bytes:
        """Run a command in the first region; it must succeed."""
        return succeeded(*arguments, *self.options(), stdin=stdin)

    def options(self) -> tuple[str, ...]:
        """Return the options that select the cluster and the region."""
        return ("-u", self.metadata, "--region", self.regions[0])

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.kill_all()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.kill_all()
        if kind is None:  # keep the files of a failed test
            shutil.rmtree(self.root)

    def kill_all(self) -> None:
        """Send SIGKILL to every running bookie."""
        for bookie in self.bookies:
            bookie.kill()


def _environment(more: Mapping[str, str] | None) -> dict[str, str]:
    kept = {key: value for key, value in os.environ.items() if not key.startswith("RHUMBLINE_")}
    return {**kept, **(more or {})}
