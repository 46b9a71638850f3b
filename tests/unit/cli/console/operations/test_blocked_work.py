"""What is blocked is told with its reason and a remedy; what waits for its turn is not blocked."""

from typing import Any

from rhumbline.cli.console.operations.blocked_work import blocked_work
from rhumbline.regions.repair.progress import NO_REPAIR, NOT_AUDITED, QUEUED

NO_PROCESS = "a repair process: none is running"
IDLE: dict[str, Any] = {
    "repair": [{"store": "global", "obstacle": None, "waiting": 2, "ledgers": []}],
    "drains": [],
    "down": [],
    "rebalance": None,
    "archiving": [],
    "migration": None,
    "stores": [{"store": "global", "error": None}],
}


def whats(**changed: object) -> dict[str, str]:
    """Return what is blocked, with what it waits for."""
    return {one["what"]: one["waits_for"] for one in blocked_work({**IDLE, **changed})}


def test_work_in_progress_is_not_blocked() -> None:
    drain = {"target": "b1", "reasons": {QUEUED: 3, NOT_AUDITED: 1}}
    migration = {"target": "zk:", "is_interrupted": False}
    archiver = {"server": "a:1", "obstacle": None}
    found = whats(drains=[drain], migration=migration, archiving=[archiver])
    assert found == {}


def test_everything_that_cannot_go_on_is_listed() -> None:
    found = whats(
        repair=[
            {
                "store": "global",
                "obstacle": NO_REPAIR,
                "waiting": 2,
                "ledgers": [{"hopeless": True}],
            }
        ],
        drains=[{"target": "region:rome", "reasons": {"no bookie": 1, NO_REPAIR: 2}}],
        down=[
            {
                "target": "b2",
                "reasons": {NO_REPAIR: 4, "stuck": 1},
                "obstacles": ["no place"],
                "ledgers": 5,
            }
        ],
        rebalance={"obstacle": "full"},
        archiving=[{"server": "a:1", "obstacle": "a:1 does not respond"}],
        migration={"target": "zk:", "is_interrupted": True},
        stores=[{"store": "oslo", "error": "away"}],
    )
    assert found == {
        "streams of namespaces whose metadata is in oslo": "away",
        "drain of region rome: 1 ledger": "no bookie",
        "drain of region rome: 2 ledgers": NO_PROCESS,
        "repair of bookie b2: 1 ledger": "stuck",
        "copies of bookie b2": "no place",
        "copies on 1 bookie down": NO_PROCESS,
        "repair of 2 ledgers": NO_PROCESS,
        "repair of 1 ledger with entries that have no copy": "a bookie that holds them",
        "rebalancing": "full",
        "archiver a:1": "a:1 does not respond",
        "migration of the metadata to zk:": "no progress for 30 s: the command has ended, or hangs",
    }
