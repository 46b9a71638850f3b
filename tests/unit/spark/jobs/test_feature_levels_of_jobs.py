"""No job writes what programs of the cluster cannot read (rule UPG-4)."""

import asyncio
import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from rhumbline.cli.main import main
from rhumbline.core.protocol.errors import FeatureLevelError
from rhumbline.spark.jobs import __main__ as jobs
from rhumbline.spark.jobs.copying import copy_archives
from rhumbline.tests.support.fakes.log_world import LogWorld
from rhumbline.tests.unit.coldstore.archive.archive_world import DictColdStore
from rhumbline.tests.unit.coldstore.compact.compaction_world import compact_once
from rhumbline.tests.unit.coldstore.erase.test_eraser import BY_KEY, archived, erase


def stored(world: LogWorld, root: Path, kind: str) -> str:
    """Store an archive that was compacted, erased or neither; return the URI."""
    cold = DictColdStore()
    world.run(archived(world, cold))
    if kind == "compacted":
        world.run(compact_once(cold, 5))
    elif kind == "erased":
        world.run(erase(cold, BY_KEY))
    for key, data in cold.objects.items():
        (root / key).parent.mkdir(parents=True, exist_ok=True)
        (root / key).write_bytes(data)
    return root.as_uri()


@pytest.mark.parametrize("kind", ["compacted", "erased"])
def test_a_copy_is_refused_before_anything_is_written(
    world: LogWorld, tmp_path: Path, kind: str
) -> None:
    metadata = f"sqlite://{tmp_path}/metadata.db"
    assert CliRunner().invoke(main, ["cluster", "init", "--metadata", metadata]).exit_code == 0
    source = stored(world, tmp_path / "cold", kind)
    target = tmp_path / "target"

    def check_readers() -> None:
        asyncio.run(jobs._require_relocations(metadata, "compacted archives"))

    with pytest.raises(FeatureLevelError, match="cluster features --raise 4"):
        copy_archives(None, source, target.as_uri(), check_readers=check_readers)  # type: ignore[arg-type]
    assert not [path for path in target.rglob("*") if path.is_file()]


@pytest.mark.parametrize("kind", ["compacted", "erased", "plain"])
@pytest.mark.parametrize("name", [[], ["--as", "t"]])
def test_a_restore_is_refused_before_anything_is_written(
    world: LogWorld, tmp_path: Path, kind: str, name: list[str]
) -> None:
    cluster = ["--metadata", f"sqlite://{tmp_path}/metadata.db"]

    def run(*given: str) -> Result:
        return CliRunner().invoke(main, [*given, *cluster, "--output", "json"])

    assert run("cluster", "init").exit_code == 0
    cold = stored(world, tmp_path / "cold", kind)
    before = sorted(path for path in (tmp_path / "cold").rglob("*") if path.is_file())
    done = run("archive", "restore", "s", "--namespace", "test", "--cold", cold, *name)
    if kind == "plain":
        assert done.exit_code == 0
        return
    assert done.exit_code == 1
    assert json.loads(done.stderr)["code"] == "feature-level"
    assert before == sorted(path for path in (tmp_path / "cold").rglob("*") if path.is_file())
    assert run("stream", "ls", "--namespace", "test").exit_code == 4, "there is no namespace"


def test_retention_does_not_forget_the_cluster(capsys: pytest.CaptureFixture[str]) -> None:
    given = ["retain", "default", "--cold", "file:///cold", "--keep-days", "1"]
    with pytest.raises(SystemExit):
        jobs._parser().parse_args(given)
    assert "--metadata --without-cluster is required" in capsys.readouterr().err
    assert jobs._parser().parse_args([*given, "--without-cluster"]).metadata is None
