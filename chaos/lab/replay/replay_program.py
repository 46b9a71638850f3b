"""The program that replays a run: its command, its environment and its limits."""

import os
import sys
from pathlib import Path
from typing import NamedTuple

from ....core.protocol.errors import ConfigurationError
from ...planted_bugs.patch import PatchError, copy_with
from ...planted_bugs.patch import load as load_bug
from .replay import ReplayOrder

CPU_S_MAX = 180
MEMORY_BYTES_MAX = 4 << 30


class ReplayProgram(NamedTuple):
    """A command and the environment in which it runs."""

    command: list[str]
    environment: dict[str, str]


def replay_program(order: ReplayOrder, folder: Path) -> ReplayProgram:
    """Return the program for an order. ``folder`` is empty and outlives the process.

    A planted bug is applied to a copy of the package in the folder, never to the package, and runs
    without assertions so that only the checker can find it. Raises ConfigurationError (the bug is
    unknown, or its patch does not apply to this package), OSError.
    """
    environment = dict(os.environ)
    options: list[str] = []
    if order.kind == "bug":
        try:
            copy_with(load_bug(order.name), folder)
        except PatchError as error:
            raise ConfigurationError(str(error)) from error
        environment |= {"PYTHONPATH": str(folder), "PYTHONDONTWRITEBYTECODE": "1"}
        options = ["-O"]
    module = ["-m", "rhumbline.chaos.lab.replay"]
    command = [sys.executable, *options, *module, order.kind, order.name, str(order.seed)]
    return ReplayProgram(command, environment)
