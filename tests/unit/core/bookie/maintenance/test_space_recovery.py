"""The state of space recovery follows from each round, and changes are logged once."""

from itertools import product

from rhumbline.core.bookie.maintenance.space_recovery import (
    SpaceEvent,
    SpaceRecovery,
    space_event,
)
from rhumbline.core.protocol.bookie_id import check_bookie_id
from rhumbline.tests.support.fakes.jumping_loop import run_jumping
from rhumbline.tests.support.fakes.recorded_log import recorded_log

ME = check_bookie_id("b1@00000001")


def test_obstacles_count_more_than_work_and_room_more_than_both() -> None:
    for is_short, has_obstacles, has_work in product((False, True), repeat=3):
        event = space_event(is_short=is_short, has_obstacles=has_obstacles, has_work=has_work)
        if not is_short:
            assert event is SpaceEvent.HAS_ROOM
        elif has_obstacles:
            assert event is SpaceEvent.HAS_OBSTACLE
        else:
            assert event is (SpaceEvent.HAS_WORK if has_work else SpaceEvent.HAS_NO_GARBAGE)


def test_each_state_is_logged_once_and_obstacles_again_after_a_while() -> None:
    async def scenario() -> None:
        now = 0.0
        recovery = SpaceRecovery(ME, lambda: now)

        def end(is_short: bool, has_work: bool = False) -> None:
            recovery.end_round(is_short=is_short, has_work=has_work, free_bytes=7)

        with recorded_log() as log:
            end(False)
            end(True, has_work=True)
            assert recovery.state.name == "FREEING"
            assert log.events() == []
            recovery.obstacles["collect garbage"] = "the metadata store is unavailable"
            end(True, has_work=True)
            end(True, has_work=True)
            assert recovery.state.name == "BLOCKED"
            recovery.obstacles["compact logs"] = "no space"
            end(True)
            recovery.obstacles.clear()
            end(True)
            end(True)
            assert recovery.state.name == "EXHAUSTED"
            end(False)
            assert recovery.state.name == "ENOUGH"
        assert log.events() == [
            "space recovery blocked",
            "space recovery blocked",
            "space exhausted",
            "space recovered",
        ]
        first, second = log.fields("space recovery blocked")
        assert first["obstacles"] == ("collect garbage: the metadata store is unavailable",)
        assert len(second["obstacles"]) == 2
        assert log.fields("space recovered") == [{"bookie": ME, "free_bytes": 7}]

    run_jumping(scenario())
