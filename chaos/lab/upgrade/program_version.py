"""A version of the program: a wheel of a commit or of the work tree, in its own environment.

The environment takes its dependencies from the one that runs this, and nothing is downloaded.
"""

import os
import subprocess
import sys
import sysconfig
import venv
import zipfile
from collections.abc import Sequence
from pathlib import Path

from ....core.protocol.errors import ConfigurationError

CHECKOUT = Path(__file__).resolve().parents[3]
WORK_TREE = "."
"""Name of the files as they are, in the place of a commit."""

_BUILD = """
import sys
from setuptools import build_meta
sys.path.insert(0, ".ci")
try:
    import build_backend as backend
except ImportError:
    backend = build_meta
print(backend.build_wheel(sys.argv[1]))
"""
_BUILD_S_MAX = 300
_NEWEST_LEVEL = """
try:
    from rhumbline.core.metadata.feature_levels import KNOWN_LEVELS as known
except ImportError:
    print(1)
else:
    print(known.newest)
"""


class ProgramVersion:
    """An environment with one version of the program. ``install`` makes it."""

    def __init__(self, commit: str, folder: Path, packages: Sequence[Path] = ()) -> None:
        """``packages`` are folders with what this version needs besides."""
        self.commit = commit
        self._packages = packages
        self._folder = folder
        self.python = folder / "env/bin/python"
        """The interpreter of the environment."""

    @property
    def name(self) -> str:
        """The version in words."""
        return "the work tree" if self.commit == WORK_TREE else self.commit

    def command(self, *arguments: str) -> list[str]:
        """Return a command of this version of ``rhumbline``."""
        return self.script("import sys; from rhumbline.cli import main; main()", *arguments)

    def script(self, code: str, *arguments: str) -> list[str]:
        """Return the command that runs Python code with this version."""
        return [str(self.python), "-I", "-c", code, *arguments]

    def newest_level(self) -> int:
        """Return the newest feature level that the version knows; 1 if it has no levels."""
        return int(_run(self.script(_NEWEST_LEVEL), self._folder))

    def install(self) -> None:
        """Build the wheel and install it. Raises ConfigurationError."""
        source = self._folder / "source"
        source.mkdir(parents=True)
        self._copy(source)
        wheel = self._build(source)
        venv.create(self._folder / "env", with_pip=False, symlinks=True)
        minor = f"python{sys.version_info.major}.{sys.version_info.minor}"
        packages = self._folder / "env/lib" / minor / "site-packages"
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(packages)
        # A folder that a .pth file names is searched, but its own .pth files are not followed: an
        # editable installation there is not seen.
        folders = [*map(str, self._packages), sysconfig.get_path("purelib")]
        (packages / "dependencies.pth").write_text("\n".join(folders) + "\n")

    def _copy(self, source: Path) -> None:
        listing = ["git", "-C", str(CHECKOUT), "ls-files", "-z", "--cached", "--others"]
        if self.commit == WORK_TREE:
            names = _run([*listing, "--exclude-standard"], CHECKOUT).split("\0")
            for name in filter(None, names):
                if (CHECKOUT / name).is_file():
                    (source / name).parent.mkdir(parents=True, exist_ok=True)
                    (source / name).write_bytes((CHECKOUT / name).read_bytes())
            return
        archive = self._folder / "source.tar"
        _run(["git", "archive", "--output", str(archive), self.commit], CHECKOUT)
        _run(["tar", "-xf", str(archive), "-C", str(source)], CHECKOUT)
        archive.unlink()

    def _build(self, source: Path) -> Path:
        built = self._folder / "wheel"
        built.mkdir()
        _run([sys.executable, "-c", _BUILD, str(built)], source)
        (wheel,) = built.glob("*.whl")
        return wheel


def _run(command: list[str], folder: Path) -> str:
    environ = {**os.environ, "RHUMBLINE_BUILD": "pure"}
    try:
        done = subprocess.run(
            command, cwd=folder, env=environ, capture_output=True, text=True, check=True,
            timeout=_BUILD_S_MAX,
        )  # fmt: skip
    except (OSError, subprocess.SubprocessError) as error:
        output = getattr(error, "stderr", "") or str(error)
        raise ConfigurationError(f"{command[0]} failed in {folder}:\n{output[-2000:]}") from error
    return done.stdout
