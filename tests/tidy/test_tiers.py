"""`make test` has a test of every promise and of every real server; the rest may be `long`."""

import os
import re
import subprocess
import sys

import pytest

from rhumbline.tests.support.tidy import source_tree
from rhumbline.tests.support.tidy.source_tree import ROOT

PAGE = "docs/explanation/what-is-promised.md"
TEST_FILE = re.compile(r"`(tests/[\w/]+\.py)`")
USE_OF_SERVER = re.compile(r'needs_server\("([\w-]+)"\)')
SPARK = "tests/integration/spark"


def promises() -> dict[str, list[list[str]]]:
    """Return the promises by title, each with the test files that its rows or sentences name."""
    sections = (ROOT / PAGE).read_text().split("\n## ")[1:]
    found = {}
    for title, _, text in (section.partition("\n") for section in sections):
        if title.startswith(("What is not promised", "How it is tested")):
            continue
        parts = re.split(r"\n\n|\n(?=\|)", text)
        found[title] = [files for part in parts if (files := TEST_FILE.findall(part))]
    return found


def uses_of_servers() -> dict[str, set[str]]:
    """Return the real servers that tests name, with the files that name them."""
    found: dict[str, set[str]] = {}
    for path in source_tree.files():
        if path.parts[0] == "tests" and path.suffix == ".py" and path.parts[1] != "tidy":
            for server in USE_OF_SERVER.findall((ROOT / path).read_text()):
                found.setdefault(server, set()).add(str(path))
    return found


@pytest.fixture(scope="module")
def tier() -> dict[str, set[str]]:
    """Return the files with tests of promises or servers in `make test`, and their servers."""
    named = {file for rows in promises().values() for files in rows for file in files}
    used = set().union(*uses_of_servers().values())
    files = {file for file in named | used if not file.startswith("tests/support/")}
    command = [sys.executable, "-m", "pytest", "--collect-only", "-qq", "-m", "not long"]
    command += ["-p", "rhumbline.tests.support.tidy.list_tests", "-p", "no:cacheprovider"]
    command += [*sorted(files), SPARK, "tests/contract/backends"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    found: dict[str, set[str]] = {}
    for line in done.stdout.splitlines():
        if line.startswith("collected "):
            _, file, *servers = line.split()
            found.setdefault(file, set()).update(servers)
    return found


def test_every_promise_is_tested_under_every_fault(tier: dict[str, set[str]]) -> None:
    assert len(promises()) > 5
    for title, rows in promises().items():
        assert rows, f"{PAGE} names no test of {title!r}"
        for files in rows:
            assert tier.keys() & set(files), f"{title}: all of {files} are long"


def test_every_real_server_is_used(tier: dict[str, set[str]]) -> None:
    assert set().union(*tier.values()) >= uses_of_servers().keys()
    assert any(file.startswith(SPARK) for file in tier)


def test_tests_that_would_begin_too_late_are_skipped_and_named() -> None:
    """This holds in CI too, where the skip of a test that needs a server is otherwise a failure."""
    test = "tests/integration/monitoring/test_alert_rules.py"
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--last-start", "0", test]
    in_ci = os.environ | {"CI": "true"}
    done = subprocess.run(command, cwd=ROOT, env=in_ci, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"there was no time left to begin {test}::" in done.stdout
    assert " passed" not in done.stdout
