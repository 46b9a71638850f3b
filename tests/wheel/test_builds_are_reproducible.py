"""Two builds of the same files, in different folders, give the same wheels, byte for byte."""

import hashlib
import os
import shutil
import sys
import sysconfig
import zipfile
from pathlib import Path

import pytest

from rhumbline.tests.support.processes.plain_commands import run
from rhumbline.tests.support.tidy import source_tree
from rhumbline.tests.support.tidy.source_tree import ROOT

SURROUNDINGS = (
    ("short", {"PYTHONHASHSEED": "1", "TZ": "UTC"}),
    ("a-folder-with-a-longer-name/below", {"PYTHONHASHSEED": "2", "TZ": "Asia/Tokyo"}),
)


def build(folder: Path, form: str) -> list[Path]:
    """Build the wheels of rhumbline and rhumbline-lab from a copy of the files in ``folder``."""
    for path in source_tree.files():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / path, folder / path, follow_symlinks=False)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RHUMBLINE_BUILD", form)
        command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", "dist"]
        for project in (".", "lab"):
            run(*command, project, cwd=folder)
    return sorted((folder / "dist").glob("*.whl"))


def differing(first: Path, second: Path) -> list[str]:
    """Return the names of members whose content differs, and of those in one wheel only."""
    contents = []
    for wheel in (first, second):
        with zipfile.ZipFile(wheel) as archive:
            contents.append({name: archive.read(name) for name in archive.namelist()})
    one, other = contents
    return sorted(name for name in one.keys() | other.keys() if one.get(name) != other.get(name))


@pytest.mark.long
@pytest.mark.timeout(900)
@pytest.mark.parametrize("form", ["pure", "compiled"])
def test_two_builds_have_one_hash(form: str, tmp_path: Path) -> None:
    header = Path(sysconfig.get_path("include")) / "Python.h"
    if form == "compiled" and not header.is_file():
        pytest.skip(f"no C headers of this Python: {header}")
    wheels = []
    for name, environ in SURROUNDINGS:
        with pytest.MonkeyPatch.context() as patch:
            patch.delenv("SOURCE_DATE_EPOCH", raising=False)
            for key, value in environ.items():
                patch.setenv(key, value)
            temporary = tmp_path / "temporary" / name
            temporary.mkdir(parents=True)
            patch.setenv("TMPDIR", str(temporary))
            assert os.environ["TMPDIR"] == str(temporary)
            wheels.append(build(tmp_path / name, form))
    of_first, of_second = wheels
    assert [wheel.name.split("-")[0] for wheel in of_first] == ["rhumbline", "rhumbline_lab"]
    for first, second in zip(of_first, of_second, strict=True):
        hashes = [hashlib.sha256(wheel.read_bytes()).hexdigest() for wheel in (first, second)]
        print(f"{first.name}: {first.stat().st_size} bytes, {hashes[0]}")
        assert first.name == second.name
        assert differing(first, second) == []
        assert hashes[0] == hashes[1], "equal members, but another order, time or mode"
