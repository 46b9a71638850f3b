"""An erasure asks the cluster before it lists the archive, and its proof has the answer."""

import argparse
import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from rhumbline.coldstore.archive.catalog import scan_manifests
from rhumbline.coldstore.archive.manifest import Manifest
from rhumbline.coldstore.erase.hot_copies import HotSegments
from rhumbline.coldstore.erase.proofs import stored_proofs
from rhumbline.coldstore.proof.chain_tip import read_tip
from rhumbline.coldstore.stores.local import LocalColdStore
from rhumbline.spark.jobs import __main__ as jobs
from rhumbline.spark.jobs import erase as erase_job
from rhumbline.tests.support.fakes.log_world import LogWorld
from rhumbline.tests.unit.coldstore.archive.archive_world import DictColdStore
from rhumbline.tests.unit.coldstore.erase.test_eraser import BY_KEY, ERASURE, archived


def write_objects(cold: DictColdStore, root: Path) -> None:
    for key, data in cold.objects.items():
        (root / key).parent.mkdir(parents=True, exist_ok=True)
        (root / key).write_bytes(data)


@pytest.mark.parametrize(("stream_id", "expected"), [("", (4, 5)), ("other", ())])
def test_the_proof_lists_the_segments_on_bookies(
    world: LogWorld, tmp_path: Path, stream_id: str, expected: tuple[int, ...]
) -> None:
    cold = DictColdStore()
    folder = world.run(archived(world, cold))
    write_objects(cold, tmp_path)
    uri = tmp_path.as_uri()
    groups, faults = asyncio.run(erase_job._groups(uri, "test", BY_KEY))
    written = list(erase_job._write(uri, BY_KEY, groups))
    hot = {"s": HotSegments(stream_id or folder.stream_id, (4, 5))}
    done, failed = asyncio.run(erase_job._commit(uri, BY_KEY, ERASURE, hot, written))
    assert (len(done), faults, failed) == (2, {}, {})
    ((proof,),) = asyncio.run(stored_proofs(LocalColdStore(tmp_path)))[0].values()
    assert proof.erasure.on_bookies == expected


@pytest.mark.parametrize(("first_lssn", "last_lssn"), [(1, 3), (3, 4)])
def test_a_segment_outside_of_the_chain_is_reported(
    world: LogWorld, tmp_path: Path, first_lssn: int, last_lssn: int
) -> None:
    """A killed archiver, copy or retention has left it, with records that are not erased."""
    cold = DictColdStore()
    folder = world.run(archived(world, cold))
    manifests = world.run(scan_manifests(cold)).manifests
    tip = world.run(read_tip(cold, folder))
    assert tip is not None
    del cold.objects[folder.tip(tip.name)]
    link = manifests[last_lssn - 1].link
    changed = replace(tip, first_lssn=first_lssn, last_lssn=last_lssn, last_link=link)
    cold.objects[folder.tip(changed.name)] = changed.encode()
    write_objects(cold, tmp_path)
    groups, faults = asyncio.run(erase_job._groups(tmp_path.as_uri(), "test", BY_KEY))
    reached = {Manifest.decode(data).lssn for group in groups for data in group}
    others = {one.key for one in manifests if one.lssn not in reached}
    assert others == set(faults)
    assert len(others) in (1, 2)
    assert all("nothing was erased" in text for text in faults.values())


def test_bookies_are_asked_before_the_archive_is_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise a segment that leaves the bookies between the two is in neither."""
    calls: list[str] = []

    async def ask(*_: object) -> dict[str, HotSegments]:
        calls.append("asked")
        return {"s": HotSegments("id", (2, 3, 7))}

    def erase(*_: object, hot: dict[str, HotSegments], **__: object) -> erase_job.EraseOutcome:
        calls.append(f"erased with {hot['s'].lssns}")
        return erase_job.EraseOutcome(1, 1, 0, {})

    monkeypatch.setattr(jobs, "_segments_on_bookies", ask)
    monkeypatch.setattr(erase_job, "erase", erase)
    given: dict[str, Any] = {"metadata": "sqlite:///m", "prefix": "test", "cold": "file:///c"}
    given |= {"key": ["k"], "from_ms": None, "before_ms": None, "by": "me", "reason": "17"}
    options = argparse.Namespace(**given, grace_minutes=60, tasks=None)
    outcome = jobs._erase(None, options)  # type: ignore[arg-type]
    assert calls == ["asked", "erased with (2, 3, 7)"]
    assert outcome.remaining == [
        "test/s: bookies hold 3 segments (2-3, 7), from which nothing was erased"
    ]
