"""An erasure asks the cluster before it lists the archive, and its proof has the answer."""

import argparse
import asyncio
from pathlib import Path
from typing import Any

import pytest

from rhumbline.coldstore.erase.hot_copies import HotSegments
from rhumbline.coldstore.erase.proofs import stored_proofs
from rhumbline.coldstore.stores.local import LocalColdStore
from rhumbline.spark.jobs import __main__ as jobs
from rhumbline.spark.jobs import erase as erase_job
from rhumbline.tests.support.fakes.log_world import LogWorld
from rhumbline.tests.unit.coldstore.archive.archive_world import DictColdStore
from rhumbline.tests.unit.coldstore.erase.test_eraser import BY_KEY, ERASURE, archived


@pytest.mark.parametrize(("stream_id", "expected"), [("", (4, 5)), ("other", ())])
def test_the_proof_lists_the_segments_on_bookies(
    world: LogWorld, tmp_path: Path, stream_id: str, expected: tuple[int, ...]
) -> None:
    cold = DictColdStore()
    folder = world.run(archived(world, cold))
    for key, data in cold.objects.items():
        (tmp_path / key).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / key).write_bytes(data)
    uri = tmp_path.as_uri()
    groups, faults = asyncio.run(erase_job._groups(uri, "test", BY_KEY))
    written = list(erase_job._write(uri, BY_KEY, groups))
    hot = {"s": HotSegments(stream_id or folder.stream_id, (4, 5))}
    done, failed = asyncio.run(erase_job._commit(uri, BY_KEY, ERASURE, hot, written))
    assert (len(done), faults, failed) == (2, {}, {})
    ((proof,),) = asyncio.run(stored_proofs(LocalColdStore(tmp_path)))[0].values()
    assert proof.erasure.on_bookies == expected


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
