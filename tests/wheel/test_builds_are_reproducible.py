"""Two builds of the same files, in different folders, give the same wheels, byte for byte."""

import hashlib
import shutil
import sys
import zipfile
from pathlib import Path

import pytest

from rhumbline.tests.support.processes.compiled_form import compiled_wheel
from rhumbline.tests.support.processes.plain_commands import run
from rhumbline.tests.support.tidy import source_tree
from rhumbline.tests.support.tidy.source_tree import ROOT

SURROUNDINGS = (
    ("short", {"PYTHONHASHSEED": "1", "TZ": "UTC"}),
    ("a-folder-with-a-longer-name/below", {"PYTHONHASHSEED": "2", "TZ": "Asia/Tokyo"}),
)


def build(folder: Path, form: str, environment: dict[str, str], *projects: str) -> list[Path]:
    """Build wheels from a copy of the checkout's files below ``folder``."""
    source, temporary = folder / "source", folder / "temporary"
    temporary.mkdir(parents=True)
    for path in source_tree.files():
        (source / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / path, source / path, follow_symlinks=False)
    settings = environment | {"RHUMBLINE_BUILD": form, "TMPDIR": str(temporary)}
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("SOURCE_DATE_EPOCH", raising=False)
        for key, value in settings.items():
            patch.setenv(key, value)
        command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", "dist"]
        for project in projects:
            run(*command, project, cwd=source)
    return sorted((source / "dist").glob("*.whl"))


def differing(first: Path, second: Path) -> list[str]:
    """Return the names of members whose content differs, and of those in one wheel only."""
    contents = []
    for wheel in (first, second):
        with zipfile.ZipFile(wheel) as archive:
            contents.append({name: archive.read(name) for name in archive.namelist()})
    one, other = contents
    return sorted(name for name in one.keys() | other.keys() if one.get(name) != other.get(name))


def assert_equal(first: Path, second: Path) -> None:
    hashes = [hashlib.sha256(wheel.read_bytes()).hexdigest() for wheel in (first, second)]
    print(f"{first.name}: {first.stat().st_size} bytes, {hashes[0]}")
    assert first.name == second.name
    assert differing(first, second) == []
    assert hashes[0] == hashes[1], "equal members, but another order, time or mode"


@pytest.mark.long
def test_two_builds_of_the_pure_form_have_one_hash(tmp_path: Path) -> None:
    of_first, of_second = (
        build(tmp_path / name, "pure", environment, ".", "lab")
        for name, environment in SURROUNDINGS
    )
    assert [wheel.name.split("-")[0] for wheel in of_first] == ["rhumbline", "rhumbline_lab"]
    for first, second in zip(of_first, of_second, strict=True):
        assert_equal(first, second)


@pytest.mark.long
@pytest.mark.timeout(900)
def test_a_build_elsewhere_has_the_hash_of_the_compiled_form(tmp_path: Path) -> None:
    first = compiled_wheel()
    name, environment = SURROUNDINGS[1]
    (second,) = build(tmp_path / name, "compiled", environment, ".")
    assert_equal(first, second)
