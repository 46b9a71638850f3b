"""The tests of docs/examples/orders pass, and one fails because of the careless desk's bug."""

import shutil
import subprocess
import sys
from pathlib import Path

from rhumbline.tests.support.tidy.source_tree import ROOT


def run_pytest(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *arguments]
    return subprocess.run(
        command, cwd=folder, capture_output=True, text=True, timeout=280, check=False
    )


def test_the_tests_pass_with_each_seed_and_the_demonstration_fails(tmp_path: Path) -> None:
    project = tmp_path / "orders"
    shutil.copytree(ROOT / "docs/examples/orders", project)
    good = run_pytest(project, "test_orders.py", "--rhumbline-seeds", "3")
    assert good.returncode == 0, good.stdout
    assert "9 passed" in good.stdout
    bad = run_pytest(project, "test_the_careless_desk.py")
    assert bad.returncode == 1
    assert "test_no_order_is_booked_twice[seed=1]" in bad.stdout
    assert "b'order " in bad.stdout
