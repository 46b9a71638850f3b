"""The sample service of the comparison of client APIs: shown in full, and type-checked."""

import subprocess
import sys

import pytest

from rhumbline.tests.support.tidy.source_tree import ROOT

FOLDER = ROOT / "docs/examples/order-service"


def test_page_shows_the_whole_service() -> None:
    page = (ROOT / "docs/reference/client-comparison.md").read_text()
    assert f"```text\n{(FOLDER / 'order_service.py').read_text()}```\n" in page


def test_service_needs_two_modules_beside_the_root() -> None:
    lines = (FOLDER / "order_service.py").read_text().splitlines()
    modules = {line.split()[1] for line in lines if line.startswith(("import rhum", "from rhum"))}
    assert modules == {"rhumbline", "rhumbline.errors", "rhumbline.topics"}


@pytest.mark.long
def test_service_passes_strict_type_checks() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--no-incremental", "order_service.py"],
        cwd=FOLDER,
        env={"MYPYPATH": str(ROOT / ".typecheck"), "PATH": ""},
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.long
def test_service_keeps_exact_totals_while_workers_crash() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(FOLDER)],
        cwd=FOLDER,
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
