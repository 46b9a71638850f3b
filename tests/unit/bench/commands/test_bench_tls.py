"""The comparison of two kinds of clusters in a benchmark."""

import asyncio
import os
from typing import Any, cast

import pytest

from rhumbline.bench.commands.bench_output import Rows
from rhumbline.bench.commands.bench_tls import BOTH, CHECKS, comparison, measured
from rhumbline.bench.harness.bookie_processes import BookieProcesses, Usage
from rhumbline.tests.support.fakes.jumping_loop import run_jumping


def _row(records_s: int, p50_ms: float | None, *, tls: bool, **more: object) -> dict[str, Any]:
    row: dict[str, Any] = {"w": "W1", "peer": "own-tls" if tls else "own", "size": 128}
    if tls:
        row["protection"] = "TLS"
    if p50_ms is not None:
        row["p50_ms"] = p50_ms
    return {**row, "rec_s": records_s, **more}


def test_medians_of_plain_and_tls_are_compared() -> None:
    plain = [_row(rate, 1.0, tls=False) for rate in (100, 1_000, 900)]
    tls = [_row(rate, 1.25, tls=True) for rate in (700, 720, 5)]
    (found,) = comparison(BOTH, [*plain, *tls])
    assert found == {
        "work": "W1",
        "peer": "own",
        "size": 128,
        "records/s plain": 900,
        "records/s TLS": 700,
        "%": 78,
        "p50 ms plain": 1.0,
        "p50 ms TLS": 1.25,
        "ms more": 0.25,
    }


def test_rows_without_latencies_and_deliveries_are_compared() -> None:
    (found,) = comparison(BOTH, [_row(10, None, tls=False), _row(5, None, tls=True)])
    assert found["%"] == 50
    assert "ms more" not in found
    plain = _row(9, 1.0, tls=False, del_rec_s=20, **{"del": {"p50_ms": 2.0}})
    tls = _row(9, 1.0, tls=True, del_rec_s=10, **{"del": {"p50_ms": 3.0}})
    (found,) = comparison(BOTH, [plain, tls])
    assert (found["%"], found["ms more"]) == (50, 1.0)


def test_a_work_that_was_measured_once_is_not_compared() -> None:
    assert comparison(BOTH, [_row(10, 1.0, tls=True)]) == []


def test_tls_alone_and_permission_checks_are_compared() -> None:
    checked = {**_row(98, 1.5, tls=True), "peer": "own-checked", "protection": "checked"}
    (found,) = comparison(CHECKS, [_row(100, 1.0, tls=True), checked])
    assert found == {
        "work": "W1",
        "peer": "own",
        "size": 128,
        "records/s TLS": 100,
        "records/s checked": 98,
        "%": 98,
        "p50 ms TLS": 1.0,
        "p50 ms checked": 1.5,
        "ms more": 0.5,
    }


class _Cluster:
    """Bookies that are busy until a time of the event loop."""

    tls = None

    def __init__(self, busy_until_s: float) -> None:
        self.busy_until_s = busy_until_s

    def usage(self) -> Usage:
        """Return the CPU time, which stands still when the bookies are idle."""
        return Usage(min(asyncio.get_running_loop().time(), self.busy_until_s), 0.0, 0, 0)


@pytest.mark.run_by(runner=run_jumping)
async def test_a_part_begins_when_the_bookies_of_both_clusters_are_idle(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(os, "sync", lambda: None)
    now_s = asyncio.get_running_loop().time
    started_s = now_s()
    began_s: list[float] = []

    async def part(cluster: BookieProcesses) -> Rows:
        began_s.append(now_s() - started_s)
        cast("_Cluster", cluster).busy_until_s = now_s() + 10  # e.g. compacts what was written
        yield _row(1, 1.0, tls=False)

    clusters = cast("list[BookieProcesses]", [_Cluster(started_s), _Cluster(started_s + 5)])
    assert len([row async for row in measured([part], clusters)]) == 2
    assert 5 <= began_s[0] <= 6
    assert 10 <= began_s[1] - began_s[0] <= 11
