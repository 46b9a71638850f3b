"""A cluster of real bookie processes on loopback, which tests kill and restart."""

import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from rhumbline.chaos.managed_process import bare_environment
from rhumbline.chaos.server_processes import BookieProcess

RHUMBLINE = Path(sys.executable).parent / "rhumbline"


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
        env={**bare_environment(), **(environ or {})},
    )


def succeeded(
    *arguments: str,
    stdin: bytes = b"",
    environ: Mapping[str, str] | None = None,
    cwd: Path | None = None,
) -> bytes:
    """Run a command that must succeed, and return its output."""
    done = rhumbline(*arguments, stdin=stdin, environ=environ, cwd=cwd)
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


class ProcessCluster:
    """A metadata store and one bookie process for each of ``regions``, below ``root``.

    ``metadata`` is the URI of the store, by default a SQLite file. ``environ`` is for bookies and
    commands. ``root`` is removed at the end, unless the test failed.
    """

    def __init__(
        self,
        root: Path,
        regions: Sequence[str],
        *,
        environ: Mapping[str, str] | None = None,
        metadata: str | None = None,
    ) -> None:
        self.root = root
        self.regions = tuple(regions)
        self.environ = environ
        self.metadata = metadata or f"sqlite://{root}/metadata.db"
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
        return succeeded(*arguments, *self.options(), stdin=stdin, environ=self.environ)

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
