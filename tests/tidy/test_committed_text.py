"""Checks committed text: no paths of one machine, no registries, complete lock files."""

import re
from pathlib import Path

import pytest

from rhumbline.tests.support.tidy import source_tree
from rhumbline.tests.support.tidy.source_tree import ROOT

# Character classes of one character keep these patterns from matching themselves.
MACHINE_PATHS = re.compile(
    r"(?<![\w.:/-])/(?:[w]ork|[r]oot|[h]ome/\w+|[U]sers/\w+)(?=[/\s\"'`),;:]|$)"
)
TEMPORARY = re.compile(r"(?<![\w.:/-])/[t]mp/[\w.-]+")
REGISTRIES = re.compile(
    r"[p]ypi\.org|[p]ythonhosted|[r]egistry\.npmjs|[a]rtifactory|[n]exus\.|[p]roxy\.golang"
    r"|[r]epo1?\.maven|[i]ndex-url|[d]ocker\.io"
)
MERGE_MARKS = re.compile(r"^(?:[<]{7}|[>]{7}) ")
DOCUMENTS = {".md", ".txt", ".rst", ".toml", ".lock"}


def lines_with(pattern: re.Pattern[str], suffixes: set[str] | None = None) -> list[str]:
    """Return the lines of committed text that match a pattern."""
    found = []
    for path in source_tree.files():
        if path.name == "LICENSE" or (suffixes and path.suffix not in suffixes):
            continue
        try:
            text = (ROOT / path).read_text()
        except UnicodeDecodeError:
            continue  # data, not text
        for number, line in enumerate(text.splitlines(), start=1):
            if pattern.search(line):
                found.append(f"{path}:{number}: {line.strip()[:100]}")
    return found


def test_patterns_match_forbidden_text() -> None:
    assert MACHINE_PATHS.search("see /" + "root/x") and MACHINE_PATHS.search("'/" + "work'")
    assert TEMPORARY.search("in /" + "tmp/mine")
    assert REGISTRIES.search("https://py" + "pi.org/simple")
    assert not MACHINE_PATHS.search("docs/work/x, https://example.org/" + "root/")


def test_no_path_of_a_machine() -> None:
    assert not (found := lines_with(MACHINE_PATHS)), "\n".join(found)


def test_documents_name_no_temporary_folder() -> None:
    assert not (found := lines_with(TEMPORARY, DOCUMENTS)), "\n".join(found)


def test_no_package_registry() -> None:
    makefile_option = "Makefile"  # holds the option that keeps the address out of the locks
    found = [line for line in lines_with(REGISTRIES) if not line.startswith(makefile_option)]
    assert not found, "\n".join(found)


def test_no_marks_of_a_merge() -> None:
    assert not (found := lines_with(MERGE_MARKS)), "\n".join(found)


def test_locks_hold_hashes_and_no_address() -> None:
    for name in ("requirements.lock", "requirements-test.lock"):
        text = (ROOT / name).read_text()
        requirements = re.findall(
            r"^[\w.-]+==\S+(?: ;[^\\\n]*)? \\\n {4}--hash=", text, re.MULTILINE
        )
        assert len(requirements) == len(re.findall(r"^[^\s#]", text, re.MULTILINE)) > 0
        assert "://" not in text


def test_locks_match_the_declared_dependencies() -> None:
    project = source_tree.pyproject()["project"]
    base, full = (
        set(re.findall(r"^([\w.-]+)==", (ROOT / name).read_text(), re.MULTILINE))
        for name in ("requirements.lock", "requirements-test.lock")
    )
    name_of = re.compile(r"[\w.-]+")
    declared = {name_of.findall(text)[0] for text in project["dependencies"]}
    assert declared <= base <= full, "run `make lock`"
    extras = project["optional-dependencies"]
    for extra in re.findall(r"--extra (\w+)", (ROOT / "Makefile").read_text()):
        assert {name_of.findall(text)[0] for text in extras[extra]} <= full, "run `make lock`"


@pytest.mark.parametrize("path", source_tree.markdown_files(), ids=str)
def test_markdown_has_one_title(path: Path) -> None:
    text = re.sub(r"^```.*?^```", "", (ROOT / path).read_text(), flags=re.MULTILINE | re.DOTALL)
    assert len(re.findall(r"^# ", text, re.MULTILINE)) == 1
