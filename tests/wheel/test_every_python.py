"""The compiled wheel is built, installed and used with each Python that it is released for.

cibuildwheel does this in containers for all platforms; here, the Pythons of this machine and of
Debian do.
"""

import sys
from pathlib import Path

import pytest

from rhumbline.tests.support.processes import plain_commands
from rhumbline.tests.support.processes.compiled_form import compiled_wheel
from rhumbline.tests.support.processes.python_versions import python_version
from rhumbline.tests.support.tidy import source_tree
from rhumbline.tests.support.tidy.source_tree import ROOT

pytestmark = [pytest.mark.long, pytest.mark.timeout(1800)]

VERSIONS = ("3.11", "3.12", "3.13", "3.14")
TAGS = [f"cp{version.replace('.', '')}" for version in VERSIONS]
ARCHITECTURES = {"linux": ("x86_64", "aarch64"), "macos": ("x86_64", "arm64")}
PLATFORM = {"linux": "manylinux", "macos": "macosx"}
PIP = ("-m", "pip", "--quiet", "--disable-pip-version-check")


@pytest.mark.parametrize("version", VERSIONS)
def test_the_compiled_wheel_carries_data(version: str, tmp_path: Path) -> None:
    found = python_version(version)

    def run(*command: str | Path) -> str:
        return found.run(*command, cwd=tmp_path, also=ROOT)

    run(found.path, "-m", "venv", "env")
    python = tmp_path / "env/bin/python"
    run(python, *PIP, "install", "--require-hashes", "-r", ROOT / "requirements.lock")
    if sys.version.startswith(f"{version}."):
        wheel = compiled_wheel()
    else:
        run("env", "RHUMBLINE_BUILD=compiled",
            python, *PIP, "wheel", "--no-deps", "--wheel-dir", tmp_path, ROOT)  # fmt: skip
        (wheel,) = tmp_path.glob("*.whl")
    tag = f"cp{version.replace('.', '')}"
    assert wheel.name.startswith(f"rhumbline-0.1.0-{tag}-{tag}-"), wheel.name
    run(python, *PIP, "install", "--no-deps", "--no-index", wheel)
    program = python.with_name("rhumbline")
    shown = run(program, "--version", "--verbose")
    assert "compiled by mypyc" in shown and f"CPython {version}." in shown
    log = tmp_path / "log.txt"
    log.write_text("".join(f"line {number}\n" for number in range(20_000)))
    demo = run(program, "demo", "--plain", "--no-spark", "--seconds", "2", log)
    print(f"{wheel.name}: {wheel.stat().st_size} bytes\n{shown}\n{demo}")
    assert "20,000" in demo


@pytest.mark.parametrize("system", ARCHITECTURES)
def test_cibuildwheel_builds_every_version_and_architecture(system: str) -> None:
    command = (sys.executable, "-m", "cibuildwheel", "--print-build-identifiers")
    printed = plain_commands.run(*command, "--platform", system, ROOT, cwd=ROOT).split()
    print(*printed)
    assert sorted(printed) == sorted(
        f"{tag}-{PLATFORM[system]}_{architecture}"
        for tag in TAGS
        for architecture in ARCHITECTURES[system]
    )


def test_cibuildwheel_tries_what_the_machine_tries() -> None:
    project = source_tree.pyproject()
    assert project["project"]["requires-python"] == f">={VERSIONS[0]}"
    configuration = project["tool"]["cibuildwheel"]
    assert configuration["build"] == [f"{tag}-*" for tag in TAGS]
    assert configuration["test-command"][0] == "rhumbline --version --verbose"
