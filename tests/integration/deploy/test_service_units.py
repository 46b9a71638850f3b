"""The files in deploy/ that start processes on a host: settings, and units of systemd."""

import re
import shlex
import subprocess
from pathlib import Path

import pytest
import yaml

from rhumbline.cli.config_file import load_settings
from rhumbline.tests.support.tidy.source_tree import ROOT
from rhumbline.tests.support.tidy.started_commands import check_command

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
    check_command(words)


@pytest.mark.parametrize("path", SETTINGS, ids=lambda path: path.stem)
def test_sample_settings_are_valid(path: Path) -> None:
    assert load_settings(path, options={}).settings.cluster.region


@pytest.mark.parametrize("path", SETTINGS, ids=lambda path: path.stem)
def test_the_page_installs_what_the_sample_settings_need(path: Path) -> None:
    """Archives need pyarrow: every process refused the sample settings, which name a cold store."""
    page = (ROOT / "docs/how-to/deploy.md").read_text()
    (installed,) = re.findall(r"pip install '\.\[([\w,]+)\]'", page)
    settings = load_settings(path, options={}).settings
    needed = {"grpc"}
    needed |= {"etcd"} if settings.cluster.metadata.startswith("etcd:") else set()
    needed |= {"arrow"} if settings.cluster.cold else set()
    needed |= {"s3"} if settings.cluster.cold.startswith("s3:") else set()
    needed |= {"security"} if settings.tls.certificate else set()
    assert needed <= set(installed.split(","))


def test_services_of_the_compose_file_start_commands_that_exist() -> None:
    document = yaml.safe_load((ROOT / "deploy/compose/compose.yaml").read_text())
    services = document["services"]
    assert {"init", "bookie-1", "write-proxy", "read-proxy", "repair"} <= set(services)
    for name, service in services.items():
        if name == "etcd":
            continue
        assert service["read_only"]
        assert service["cap_drop"] == ["ALL"]
        command = service["command"]
        lines = [command] if "entrypoint" not in service else shell_commands(command[0])
        for words in lines:
            check_command(words)


def test_samples_for_networks_have_a_port_for_operators_that_is_not_published() -> None:
    settings = load_settings(ROOT / "deploy/settings/region.toml", options={}).settings
    assert settings.proxy.operator_port not in (0, 4281)
    services = yaml.safe_load((ROOT / "deploy/compose/compose.yaml").read_text())["services"]
    for name in ("write-proxy", "read-proxy"):
        port = services[name]["environment"]["RHUMBLINE_PROXY__OPERATOR_PORT"]
        assert port == str(settings.proxy.operator_port)
        assert not [one for one in services[name]["ports"] if one.endswith(f":{port}")]


def shell_commands(script: str) -> list[list[str]]:
    """Return the arguments of each `rhumbline` that a script starts."""
    lines = [shlex.split(line) for line in script.splitlines()]
    return [line[line.index("rhumbline") + 1 :] for line in lines if "rhumbline" in line]
