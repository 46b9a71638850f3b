"""The files in deploy/ that start processes on a host: settings, and units of systemd."""

import re
import shlex
import subprocess
from pathlib import Path

import click
import pytest

from rhumbline.cli.config_file import load_settings
from rhumbline.cli.main import main
from rhumbline.tests.support.tidy.source_tree import ROOT

UNITS = sorted((ROOT / "deploy/systemd").glob("*.service"))
SETTINGS = sorted((ROOT / "deploy/settings").glob("*.toml"))
EXPOSURE_MAX = 1.5
"""The scale of `systemd-analyze security` ends at 10; what a program of its own gets is 9.6."""


def analyze(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """Run `systemd-analyze` and return what it said."""
    return subprocess.run(
        ["systemd-analyze", "--no-pager", *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


def command_of(unit: Path) -> list[str]:
    """Return the program that a unit starts, with its arguments."""
    (line,) = re.findall(r"^ExecStart=(.*)$", unit.read_text(), re.MULTILINE)
    return shlex.split(line)


@pytest.mark.parametrize("unit", UNITS, ids=lambda path: path.stem)
def test_units_are_valid_and_hardened(unit: Path, tmp_path: Path) -> None:
    program = command_of(unit)[0]
    copy = tmp_path / unit.name
    copy.write_text(unit.read_text().replace(program, "/usr/bin/env"))
    verified = analyze("verify", copy)
    assert (verified.returncode, verified.stderr) == (0, "")
    judged = analyze("security", "--offline=true", unit)
    (exposure,) = re.findall(r"Overall exposure level for \S+: ([\d.]+)", judged.stdout)
    assert float(exposure) <= EXPOSURE_MAX


@pytest.mark.parametrize("unit", UNITS, ids=lambda path: path.stem)
def test_units_start_commands_that_exist(unit: Path) -> None:
    _, *words = command_of(unit)
    command: click.Command = main
    while isinstance(command, click.Group):
        found = command.get_command(click.Context(command), words.pop(0))
        assert found is not None
        command = found
    command.make_context(command.name, words, resilient_parsing=False)


@pytest.mark.parametrize("path", SETTINGS, ids=lambda path: path.stem)
def test_sample_settings_are_valid(path: Path) -> None:
    assert load_settings(path, options={}).settings.cluster.region
