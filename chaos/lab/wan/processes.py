"""The processes of the lab, and the programs of other servers."""

import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from ....core.protocol.errors import ConfigurationError
from ...managed_process import ManagedProcess


class Program(ManagedProcess):
    """A process of the lab in a region, which may end and be started again."""

    def __init__(
        self,
        name: str,
        region: str,
        command: Sequence[str],
        log: Path,
        *,
        ready: str | Callable[[], bool] = "",
        environ: Mapping[str, str] | None = None,
        has_input: bool = False,
    ) -> None:
        super().__init__(
            name, command, log, ready=ready, environ=environ, cwd=log.parent, has_input=has_input
        )
        self.region = region


def find_program(name: str, *candidates: Path, hint: str) -> Path:
    """Return the path of a program in PATH or among the candidates. Raises ConfigurationError."""
    in_path = shutil.which(name)
    if in_path is not None:
        return Path(in_path)
    for candidate in candidates:
        if candidate.is_file():
            return candidate
    raise ConfigurationError(f"{name} was not found in PATH: {hint}")
