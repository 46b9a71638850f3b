"""The progress of a drain is shown with what it waits for, also to readers without a terminal."""

from rhumbline.cli.operate.drains.progress import (
    ProgressLines,
    as_document,
    describe,
    leaving_targets,
)
from rhumbline.core.protocol.bookie_id import BookieId, Region
from rhumbline.regions.repair.progress import BlockedLedger, RemainingCopies
from rhumbline.regions.states import PlacementState, PlacementStates

A, B = BookieId("a@00000001"), BookieId("b@00000001")


def remaining(count: int) -> RemainingCopies:
    blocked = [BlockedLedger(n, f"default/s{n}", n == 0, f"reason {n}") for n in range(count)]
    return RemainingCopies(count, 2 * count, 100 * count, 1024 * count, 1, blocked)


def test_a_line_names_the_first_ledgers_with_what_they_wait_for() -> None:
    line = describe(remaining(5), 65_000)
    assert line == (
        "5 ledgers, 10 copies, 5.0 KiB left; ETA 1m 5s; 1 being written; "
        "default/s0 (ledger 0): reason 0; default/s1 (ledger 1): reason 1; "
        "default/s2 (ledger 2): reason 2; and 2 more ledgers"
    )
    assert describe(RemainingCopies(), None) == "no data left"


def test_a_document_has_numbers_in_plain_units() -> None:
    document = as_document("a@00000001", remaining(1), None)
    assert document["target"] == "a@00000001"
    assert (document["bytes"], document["eta_ms"], document["is_done"]) == (1024, None, False)
    assert document["waiting"] == [
        {"ledger": 0, "stream": "default/s0", "is_open": True, "reason": "reason 0"}
    ]


def test_lines_are_printed_on_change_every_ten_seconds_and_else_every_minute() -> None:
    lines = ProgressLines()
    printed = []
    for second in range(200):
        line = "busy" if second < 25 else "stuck"
        if lines.is_due(line + (str(second) if second < 25 else ""), second, is_last=False):
            printed.append(second)
    assert printed == [0, 10, 20, 30, 90, 150]
    assert lines.is_due("stuck", 151, is_last=True), "the end is printed at once"


def test_targets_are_all_bookies_and_regions_whose_copies_move() -> None:
    states = PlacementStates(
        {Region("x"): PlacementState.OFFLINE, Region("y"): PlacementState.DISALLOWED},
        {A: PlacementState.DRAINED},
    )
    targets = leaving_targets(states)
    assert list(targets) == [A, "region:x"]
    assert targets[A](A, Region("y")) and not targets[A](B, Region("x"))
    assert targets["region:x"](B, Region("x")) and not targets["region:x"](A, None)
