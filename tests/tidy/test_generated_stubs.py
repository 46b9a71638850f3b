"""Checks that the committed stubs are those that the .proto files generate."""

import subprocess
import sys
from pathlib import Path

import pytest

from rhumbline.tests.support.tidy import source_tree
from rhumbline.tests.support.tidy.source_tree import ROOT

PROTOS = [path for path in source_tree.files() if path.suffix == ".proto"]


@pytest.fixture(scope="module")
def generated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with newly generated stubs."""
    out = tmp_path_factory.mktemp("stubs")
    command = [sys.executable, ".ci/protos.py", str(out)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    return out / "rhumbline"


@pytest.mark.parametrize("proto", PROTOS, ids=str)
def test_stubs_are_what_the_proto_generates(proto: Path, generated: Path) -> None:
    fresh = {p.name: p.read_bytes() for p in (generated / proto.parent).glob(f"{proto.stem}_pb2*")}
    beside = [p for p in (ROOT / proto.parent).glob(f"{proto.stem}_pb2*") if p.is_file()]
    assert fresh
    assert {p.name: p.read_bytes() for p in beside} == fresh, "run `make proto`"


def test_no_stub_is_left_without_its_proto() -> None:
    stubs = [path for path in source_tree.files() if source_tree.is_generated(path)]
    known = {(proto.parent, proto.stem) for proto in PROTOS}
    assert not [p for p in stubs if (p.parent, p.name.split("_pb2")[0]) not in known]
