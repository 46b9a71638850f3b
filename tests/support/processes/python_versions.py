"""Pythons of several versions: those of this machine, or newer ones in a root file system.

Such a root holds packages of Debian's unstable distribution. A command in it runs in a mount
namespace of its own, with the folders that it needs at the same paths as outside.
"""

import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

from rhumbline.tests.support.processes.plain_commands import run
from rhumbline.tests.support.servers import installs

_HEADER = "import sysconfig; print(sysconfig.get_path('include') + '/Python.h')"
_SHARED = ("/dev", "/proc", "/sys", "/etc/ssl")
_ENTER = """
set -e
root=$1
shift
cp -L /etc/resolv.conf /etc/hosts "$root/etc/"
while [ "$1" != -- ]; do
    mkdir -p "$root$1"
    mount --rbind "$1" "$root$1"
    shift
done
shift
exec chroot "$root" env --chdir="$PWD" "$@"
"""


@dataclass(frozen=True, slots=True)
class PythonVersion:
    """A Python that can compile extensions."""

    path: Path
    root: Path | None = None
    """The root file system in which ``path`` is; None is that of this machine."""

    def run(self, *command: str | Path, cwd: Path, also: Path) -> str:
        """Run a command beside this Python and return its output.

        It sees the folders ``cwd`` and ``also``. Raises AssertionError with the output if it fails.
        """
        if self.root is None:
            return run(*command, cwd=cwd)
        enter = ("unshare", "--mount", "sh", "-c", _ENTER, "sh", self.root)
        return run(*enter, *_SHARED, cwd, also, "--", *command, cwd=cwd)


def python_version(version: str) -> PythonVersion:
    """Return a Python of this version with its C headers; skip the test if there is none."""
    found = [Path(path) for path in (shutil.which(f"python{version}"),) if path]
    found += sorted(Path.home().glob(f".pyenv/versions/{version}.*/bin/python{version}"))
    for path in found:
        done = subprocess.run([path, "-c", _HEADER], capture_output=True, text=True, check=False)
        if done.returncode == 0 and Path(done.stdout.strip()).is_file():
            return PythonVersion(path)
    if os.geteuid() != 0:
        pytest.skip(f"no Python {version} with its headers on this machine")
    try:
        installs.require_packages("mmdebstrap")
        root = installs.installed(f"python-{version}", lambda into: _unpack(version, into))
    except installs.NotInstalledError as error:
        pytest.skip(
            f"no Python {version} with its headers here, and Debian's cannot be had: {error}"
        )
    return PythonVersion(Path(f"/usr/bin/python{version}"), root)


def _unpack(version: str, into: Path) -> None:
    """Fill a root file system with this Python, and with what a build of an extension needs."""
    packages = f"python{version}-venv,python{version}-dev,gcc,libc6-dev,ca-certificates"
    installs.run(
        "mmdebstrap", "--quiet", "--variant=apt", f"--include={packages}",
        # A mirror may lag behind by more than the time for which an index of "sid" is valid.
        "--aptopt=Acquire::Check-Valid-Until \"false\"",
        "sid", str(into), at=str(into.parent),
    )  # fmt: skip
