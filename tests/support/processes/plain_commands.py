"""Runs commands that must succeed, outside of the environment of the tests."""

import os
import subprocess
from pathlib import Path


def run(*command: str | Path, cwd: Path, python_path: Path | None = None) -> str:
    """Run a command and return its output. Raises AssertionError with the output if it fails.

    ``python_path`` is where it imports from first; without it only what is installed.
    """
    environment = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "VIRTUAL_ENV")}
    if python_path is not None:
        environment["PYTHONPATH"] = str(python_path)
    done = subprocess.run(
        [str(part) for part in command],
        cwd=cwd,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, f"{command}\n{done.stdout[-8000:]}\n{done.stderr[-8000:]}"
    return done.stdout
