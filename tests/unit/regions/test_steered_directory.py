"""Allowed regions: in policies, in ledger metadata, in plans."""

import pytest

from rhumbline.cli.streams.policy_options import parse_regions
from rhumbline.core.log.policy import StreamPolicy
from rhumbline.core.protocol.bookie_id import BookieId
from rhumbline.core.protocol.errors import CorruptionError, InvalidArgumentError
from rhumbline.core.protocol.ledger_metadata import REGIONS_KEY, Fragment, LedgerMetadata
from rhumbline.core.protocol.quorum import Quorum
from rhumbline.placement.planner import plan
from rhumbline.placement.topology import Topology

GLOBAL = StreamPolicy(quorum=Quorum(3, 3, 2, 2))


def ledger(custom: dict[str, bytes]) -> LedgerMetadata:
    return LedgerMetadata(1, 1, 1, 1, (Fragment(0, (BookieId("b@00000000"),)),), custom=custom)


def test_policy_keeps_its_regions_in_order() -> None:
    pinned = StreamPolicy(quorum=Quorum(3, 3, 2, 2), regions=("us", "eu"))
    assert StreamPolicy.from_fields(pinned.to_fields()) == pinned
    assert StreamPolicy.from_fields(GLOBAL.to_fields()) == GLOBAL


def test_policy_without_regions_is_global() -> None:
    fields = GLOBAL.to_fields()
    assert "regions" not in fields
    assert StreamPolicy.from_fields(fields) == GLOBAL


@pytest.mark.parametrize(
    ("regions", "message"),
    [
        (("eu",), "R=2 needs at least 2 regions"),
        (("eu", "eu"), "listed twice"),
        (("eu", "a/b"), "a/b"),
    ],
)
def test_regions_that_cannot_satisfy_the_policy_are_refused(
    regions: tuple[str, ...], message: str
) -> None:
    with pytest.raises(InvalidArgumentError, match=message):
        StreamPolicy(quorum=Quorum(3, 3, 2, 2), regions=regions)


def test_ledger_metadata_names_its_allowed_regions() -> None:
    assert ledger({}).allowed_regions() == ()
    assert ledger({REGIONS_KEY: b"us,eu"}).allowed_regions() == ("us", "eu")
    for damaged in (b"", b"us,,eu", b"\xff"):
        with pytest.raises(CorruptionError, match=r"ledger 1: bad rhumbline\.regions"):
            ledger({REGIONS_KEY: damaged})


def test_regions_are_parsed_on_the_command_line() -> None:
    assert parse_regions("us, eu") == ("us", "eu")
    assert parse_regions("all") == ()
    with pytest.raises(InvalidArgumentError):
        parse_regions("us,")


def test_plan_limited_to_regions_ignores_others_except_for_metadata() -> None:
    world = Topology({"eu": 3, "us": 3, "asia": 3}, None)
    found = plan(world.limited_to(("eu", "us")), (3, 3, 2, 2))
    assert [loss.lost for loss in found.losses] == [("eu",), ("us",)]
    assert found.losses_survived() == 0, "two regions cannot lose one and keep R=2"
    assert plan(world, (3, 3, 2, 2)).losses_survived() == 1
    assert world.limited_to(("eu", "us")).voters() == ("asia", "eu", "us")
    assert world.limited_to(()) is world
    with pytest.raises(InvalidArgumentError, match="unknown region mars"):
        world.limited_to(("eu", "mars"))
