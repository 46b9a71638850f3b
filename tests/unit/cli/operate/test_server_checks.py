"""``doctor`` reports a fault as long as something is wrong, and a warning for what was ordered."""

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from rhumbline.cli.operate.durability.checks import judge_next_failure
from rhumbline.cli.operate.durability.next_failure import blocking_failures
from rhumbline.cli.operate.server_checks import (
    FAULT,
    OK,
    WARNING,
    check_bookies,
    check_hosts,
    check_proxies,
    check_regions,
    judge_bookie,
)
from rhumbline.cli.overview.bookies import BookieView
from rhumbline.cli.overview.status_documents import StatusDocument
from rhumbline.core.log.policy import StreamPolicy
from rhumbline.core.protocol.bookie_id import BookieId, Region
from rhumbline.core.protocol.placement import BookieInfo
from rhumbline.core.protocol.quorum import Quorum
from rhumbline.regions.durability.report import DurabilityReport
from rhumbline.regions.states import PlacementState
from rhumbline.tests.unit.cli.overview.test_regions import EU, US, bookie

FULL_DIRECTORY = {"full": True, "free_bytes": 5}


def test_a_region_that_is_down_stays_a_fault_until_it_is_ordered() -> None:
    views = [bookie(is_up=False), bookie("c@00000002", US)]
    down, fine = check_regions(views, {})
    assert (down.subject, down.verdict, down.detail) == (
        "region eu",
        FAULT,
        "down; bookies: 1 down",
    )
    assert (fine.verdict, fine.detail) == (OK, "open; bookies: 1 writable")
    ordered, _ = check_regions(views, {EU: PlacementState.OFFLINE})
    assert ordered.verdict == WARNING
    (full,) = check_regions([bookie(is_read_only=True)], {})
    assert (full.verdict, full.detail) == (FAULT, "no writable bookie; bookies: 1 read-only")
    (drained,) = check_regions([bookie(ordered=PlacementState.DRAINED)], {})
    assert drained.verdict == WARNING
    (nothing,) = check_regions([], {})
    assert nothing.verdict == FAULT


@pytest.mark.parametrize(
    ("statistics", "detail"),
    [
        ({"space": "freeing"}, "; it looks for garbage and removes it"),
        ({"space": "freeing", "ledgers_surplus": 5}, "; 5 ledgers that repair moved away stay"),
        (
            {"space": "blocked", "space_obstacles": ["collect garbage: the store is away"]},
            "; it cannot free space: collect garbage: the store is away",
        ),
        ({"space": "exhausted"}, "; everything on it is live: delete or move data"),
        ({"space": "enough"}, "read-only; free disk space: "),
    ],
)
def test_a_full_bookie_says_what_it_does_about_it(statistics: dict[str, Any], detail: str) -> None:
    found = judge_bookie(bookie(is_read_only=True, status=StatusDocument(statistics, None)))
    assert (found.verdict, detail in found.detail) == (FAULT, True), found


@pytest.mark.parametrize(
    ("changes", "verdict", "detail"),
    [
        ({}, OK, "reachable at 127.0.0.1:"),
        ({"is_up": False}, FAULT, "down (not registered); if it is lost for good"),
        ({"is_up": False, "ordered": PlacementState.DRAINED}, WARNING, "(not registered), drained"),
        ({"is_known": False}, WARNING, "decommissioned, but its process runs"),
        ({"is_read_only": True}, FAULT, "read-only; free disk space: 26 B"),
        ({"limbo": "an unfinished write"}, WARNING, "in limbo: an unfinished write"),
        ({"ordered": PlacementState.DISALLOWED}, WARNING, ", closed"),
        (
            {"status": StatusDocument({"damaged_ranges": 2}, None)},
            FAULT,
            "2 damaged byte ranges not",
        ),
        (
            {"status": StatusDocument({"failed_directories": ["/d1"], "lost_files": 1}, None)},
            FAULT,
            "data directory /d1 failed, 1 lost file not restored yet",
        ),
        (
            {"status": StatusDocument({"data_directory": {"/d1": FULL_DIRECTORY}}, None)},
            WARNING,
            "data directory /d1 is full; free: 5 B",
        ),
        ({"status": StatusDocument({"failure": "disk"}, None)}, FAULT, "failed: disk"),
        ({"status": StatusDocument({}, "no answer")}, WARNING, "its status server: no answer"),
    ],
)
async def test_a_bookie_is_judged_by_everything_that_is_known(
    changes: dict[str, Any], verdict: str, detail: str
) -> None:
    server = await asyncio.start_server(lambda _r, w: w.close(), "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        (found,) = await check_bookies([bookie(address=("127.0.0.1", port), **changes)], None)
    assert (found.verdict, detail in found.detail) == (verdict, True), found


async def test_a_registered_bookie_that_refuses_connections_is_a_fault() -> None:
    (found,) = await check_bookies([bookie(address=("127.0.0.1", 1))], None)
    assert (found.verdict, "cannot be reached" in found.detail) == (FAULT, True)


def test_a_proxy_that_does_not_respond_is_a_fault() -> None:
    row = {"address": "h:1", "roles": "write", "region": "eu", "owned_streams": 2}
    modes = ("accepting", "draining", "unreachable")
    found = check_proxies([{**row, "mode": mode} for mode in modes])
    assert [one.verdict for one in found] == [OK, WARNING, FAULT]
    assert found[0].detail == "write proxy in eu, accepting, owns 2 streams"
    assert check_proxies([])[0].verdict == OK


def infos(*regions: str) -> list[BookieInfo]:
    return [
        BookieInfo(BookieId(f"b{number}@0000000{number}"), Region(region), f"r{number}", 1 << 40)
        for number, region in enumerate(regions)
    ]


@pytest.mark.parametrize(
    ("regions", "blocking"),
    [
        (("a", "a", "b", "b", "c", "c"), []),
        (("a", "b", "c"), ["region a", "region b", "region c", "b0@00000000"]),
        (("a", "a", "a", "b"), ["region a", "region b", "b3@00000003"]),
    ],
)
def test_losses_that_would_stop_new_segments_are_named(
    regions: tuple[str, ...], blocking: list[str]
) -> None:
    found = blocking_failures(StreamPolicy(quorum=Quorum(3, 3, 2, 2)), infos(*regions))
    for name in blocking:
        assert any(name in one for one in found), found
    assert bool(found) == bool(blocking)


def test_a_host_of_several_bookies_whose_loss_would_stop_new_segments_is_named() -> None:
    bookies = [replace(info, rack=None, host="h") for info in infos("a", "a")]
    bookies += [replace(info, rack=None, host="i") for info in infos("a", "a", "a")[2:]]
    found = blocking_failures(StreamPolicy(quorum=Quorum(2, 2, 2, 1)), bookies)
    assert found == ["region a", "host h in a"]


def test_bookies_of_one_host_must_register_one_rack() -> None:
    def on_host(name: str, rack: str, host: str) -> BookieView:
        view = bookie(f"{name}@00000001")
        assert view.registration is not None
        places = {"rack": rack, "host": host}
        return replace(view, registration=replace(view.registration, properties=places))

    views = [on_host("a", "r1", "h"), on_host("b", "r1", "h"), on_host("c", "r2", "i")]
    (fine,) = check_hosts(views)
    assert (fine.verdict, fine.detail) == (OK, "3 bookies on 2 hosts")
    (torn,) = check_hosts([*views, on_host("d", "r3", "i")])
    assert torn.verdict == WARNING
    assert torn.detail == "bookies of one host register different zones or racks: i in eu"
    assert check_hosts([bookie(is_up=False)]) == []


def test_the_next_failure_is_described_by_level() -> None:
    report = DurabilityReport(("bookie", "region"), {})
    report.one_failure_from_loss = {
        "bookie": {"open": 0, "closed": 0},
        "region": {"open": 1, "closed": 2},
    }
    report.one_failure_from_blocking = {"bookie": 0, "region": 4}
    found = judge_next_failure("one more failure", report)
    assert (found.verdict, found.detail) == (
        WARNING,
        "the loss of a region takes the last copies of 3 ledgers, of a region blocks the writes of "
        "4 open ledgers",
    )
    report.one_failure_from_loss["region"] = {"open": 0, "closed": 0}
    report.one_failure_from_blocking["region"] = 0
    found = judge_next_failure("one more failure", report)
    assert (found.verdict, found.detail) == (
        OK,
        "the loss of a bookie or region takes no last copy and blocks no writes",
    )
    report.ledgers_unreadable = 2
    found = judge_next_failure("one more failure", report)
    assert (found.verdict, found.detail) == (
        WARNING,
        "nothing is known about 2 ledgers with damaged metadata",
    )
