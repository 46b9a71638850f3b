"""Which streams move: load and not count, hot streams first, few moves, and no flapping."""

from collections.abc import Sequence

from rhumbline.proxies.balance.balance_plan import (
    BalanceLimits,
    MoveReason,
    StreamMove,
    imbalance,
    plan_moves,
)
from rhumbline.proxies.balance.load_report import BusyStream, LoadReport

LIMITS = BalanceLimits(tolerance_percent=20, stay_ms=60_000, moves_max=16)
OLD = 3_600_000


def report(
    address: str,
    *loads: float,
    rest: float = 0.0,
    held_ms: int = OLD,
    cpu_percent: int = 10,
    queue_ms: int = 0,
) -> LoadReport:
    hot = tuple(
        BusyStream(f"test/{address}-{n}", load, held_ms)
        for n, load in enumerate(sorted(loads, reverse=True))
    )
    return LoadReport(
        f"id {address}",
        address,
        "east",
        sum(loads) + rest,
        len(loads),
        0.0,
        0.0,
        cpu_percent,
        queue_ms,
        hot,
    )


def moves_of(reports: Sequence[LoadReport], limits: BalanceLimits = LIMITS) -> list[StreamMove]:
    return plan_moves(reports, limits, accepting=[report.address for report in reports])


def loads_after(reports: Sequence[LoadReport], moves: Sequence[StreamMove]) -> dict[str, float]:
    loads = {report.address: report.load for report in reports}
    for move in moves:
        loads[move.source] -= move.load
        loads[move.target] += move.load
    return loads


def test_hot_streams_move_and_the_number_of_streams_does_not_matter() -> None:
    reports = [report("a", 400, 300, 200), report("b", *[1] * 30), report("c", 60)]
    moves = moves_of(reports)
    assert [(move.key, move.target) for move in moves] == [("test/a-1", "b"), ("test/a-2", "c")]
    assert imbalance(loads_after(reports, moves).values()) < 1.25
    first = moves[0]
    assert (first.source_load, first.target_load, first.mean_load) == (900, 30, 330)
    assert first.reason is MoveReason.LOAD


def test_nothing_moves_within_the_tolerance_or_for_little_load() -> None:
    assert moves_of([report("a", 60, 59), report("b", 100), report("c", 85)]) == []
    assert moves_of([report("a", *[1] * 19), report("b"), report("c")]) == []


def test_shedding_ends_at_half_the_tolerance() -> None:
    reports = [report("a", *[10] * 30), report("b", *[10] * 10), report("c", *[10] * 20)]
    loads = loads_after(reports, moves_of(reports))
    assert loads == {"a": 220, "b": 180, "c": 200}


def test_a_stream_that_was_just_taken_over_or_is_pinned_stays() -> None:
    assert moves_of([report("a", 300, 200, held_ms=59_999), report("b"), report("c")]) == []
    reports = [report("a", 300, 200, 100), report("b"), report("c")]
    moves = plan_moves(reports, LIMITS, accepting=["a", "b", "c"], pinned=["test/a-0", "test/a-1"])
    assert [move.key for move in moves] == ["test/a-2"]


def test_moves_of_a_round_are_limited() -> None:
    reports = [report("a", *[10] * 100), report("b"), report("c")]
    assert len(moves_of(reports, LIMITS._replace(moves_max=5))) == 5
    assert moves_of(reports, LIMITS._replace(moves_max=0)) == []


def test_a_proxy_that_drains_takes_nothing_and_one_without_a_report_is_left_alone() -> None:
    reports = [report("a", 300, 200, 100), report("b"), report("c")]
    moves = plan_moves(reports, LIMITS, accepting=["a", "b", "d"])
    assert moves and {move.target for move in moves} == {"b"}


def test_a_strained_proxy_takes_nothing_and_sheds_without_the_tolerance() -> None:
    reports = [report("a", 300, 100, 100), report("b", cpu_percent=80), report("c", 80)]
    assert {move.target for move in moves_of(reports)} == {"c"}
    near = [report("a", 100, 15, queue_ms=50), report("b", 100), report("c", 85)]
    (move,) = moves_of(near, LIMITS._replace(tolerance_percent=20))
    assert (move.key, move.target, move.reason) == ("test/a-1", "c", MoveReason.STRAIN)
    assert moves_of([one._replace(queue_ms=0) for one in near]) == []


def test_one_stream_hotter_than_the_mean_does_not_move_in_circles() -> None:
    reports = [report("a", 1_000, 200), report("b", 10), report("c", 10)]
    first = moves_of(reports)
    assert [move.key for move in first] == ["test/a-1"]
    alone = [report("a", 1_000), report("b", 10), report("c", 210)]
    assert moves_of(alone) == []


def test_two_streams_that_fit_nowhere_are_separated() -> None:
    reports = [report("a", 1_000, 900), report("b", 10), report("c", 20)]
    (move,) = moves_of(reports)
    assert (move.key, move.target) == ("test/a-1", "b")


def test_a_move_that_the_reports_do_not_show_yet_counts_as_made() -> None:
    before = [report("a", 300, 300), report("b"), report("c", 100)]
    (move,) = moves = moves_of(before)
    everyone = [one.address for one in before]
    assert move.target == "b"
    on_its_way = [report("a", 300), report("b"), report("c", 100)]
    for reports in (before, on_its_way):
        assert plan_moves(reports, LIMITS, accepting=everyone, pending=moves) == []
    arrived = (
        on_its_way[0],
        report("b")._replace(load=300, hot=(BusyStream(move.key, 300, 5_000),)),
        on_its_way[2],
    )
    assert plan_moves(arrived, LIMITS, accepting=everyone, pending=moves) == []


def test_imbalance_is_the_highest_load_by_the_mean() -> None:
    assert imbalance([10, 20, 30]) == 1.5
    assert imbalance([]) == imbalance([0, 0]) == 1
