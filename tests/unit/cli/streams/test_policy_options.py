"""Policy options: parsing, refusals, and the default quorum for a cluster."""

from dataclasses import fields

import click
import pytest

from rhumbline.cli.errors import UnsafeError
from rhumbline.cli.streams.policy_options import (
    PolicyOptions,
    default_quorum,
    parse_quorum,
    policy_options,
)
from rhumbline.core.log.policy import StreamPolicy
from rhumbline.core.protocol.bookie_id import BookieId, Region
from rhumbline.core.protocol.errors import IllegalQuorumError, InvalidArgumentError
from rhumbline.core.protocol.placement import BookieInfo
from rhumbline.core.protocol.quorum import Quorum


def options(arguments: str) -> PolicyOptions:
    """Parse a command line as a command with policy options does."""

    @click.command()
    @policy_options
    def command(policy: PolicyOptions) -> PolicyOptions:
        return policy

    parsed = command.main(arguments.split(), standalone_mode=False)
    assert isinstance(parsed, PolicyOptions)
    return parsed


def test_quorum_is_parsed_with_and_without_r() -> None:
    assert parse_quorum("3/3/2/2", allow_ack_1=False) == Quorum(3, 3, 2, 2)
    assert parse_quorum("6/4/2/R2", allow_ack_1=False) == Quorum(6, 4, 2, 2)
    assert parse_quorum("3/3/2", allow_ack_1=False) == Quorum(3, 3, 2, 1)


def test_impossible_quorum_is_refused() -> None:
    with pytest.raises(InvalidArgumentError, match="write E/WQ/AQ/R"):
        parse_quorum("three", allow_ack_1=False)
    with pytest.raises(IllegalQuorumError, match="R=3 is above AQ=2"):
        parse_quorum("3/3/2/3", allow_ack_1=False)


def test_ack_quorum_of_one_needs_the_unsafe_option() -> None:
    with pytest.raises(UnsafeError, match="--unsafe-ack-1"):
        parse_quorum("3/3/1", allow_ack_1=False)
    assert parse_quorum("3/3/1", allow_ack_1=True).ack_quorum == 1
    assert parse_quorum("1/1/1", allow_ack_1=False).ack_quorum == 1


def test_options_change_only_their_own_fields() -> None:
    before = StreamPolicy()
    assert not options("").is_any_given
    given = "--flush 10ms --roll-bytes 64MiB --retention 7d --codec zstd --quorum 1/1/1"
    after = options(given).apply_to(before)
    assert after.flush.period_ms == 10
    assert after.flush.bytes_max == before.flush.bytes_max
    assert (after.roll_bytes, after.retention_ms) == (64 << 20, 7 * 86_400_000)
    assert after.roll_ms == before.roll_ms
    assert options("--retention none --flush immediate").apply_to(after).retention_ms is None
    with pytest.raises(
        InvalidArgumentError, match="period_ms=36000000 is not between 0 and 60000 ms"
    ):
        options("--flush 10h").apply_to(before)


def test_every_field_of_a_policy_has_an_option() -> None:
    given = {
        "--quorum": "3/3/2/2",
        "--flush": "5ms",
        "--flush-bytes": "1KiB",
        "--flush-visibility": "1s",
        "--codec": "zstd",
        "--record-bytes-max": "2KiB",
        "--roll-bytes": "1MiB",
        "--roll-time": "1h",
        "--keepalive": "10s",
        "--retention": "7d",
        "--hot-retention": "1d",
        "--archive-retention": "365d",
        "--truncates-by-subscriptions": "true",
        "--purge-grace": "2h",
        "--regions": "eu,us",
        "--spread": "region:2,rack:3",
    }
    text = " ".join(f"{name} {value}" for name, value in given.items())
    policy, default = options(text).apply_to(StreamPolicy()), StreamPolicy()
    for part, other in ((policy, default), (policy.flush, default.flush)):
        same = [f.name for f in fields(part) if getattr(part, f.name) == getattr(other, f.name)]
        assert same == []


def test_the_error_names_the_option() -> None:
    with pytest.raises(InvalidArgumentError, match="--retention: 'soon' is not a duration"):
        options("--retention soon").apply_to(StreamPolicy())


def test_a_spread_rule_is_checked_against_the_copies() -> None:
    assert options("--spread none").apply_to(StreamPolicy(spread=("rack:2",))).spread == ()
    with pytest.raises(InvalidArgumentError, match="--spread: bad spread 'shelf:2'"):
        options("--spread shelf:2").apply_to(StreamPolicy())
    with pytest.raises(InvalidArgumentError, match="WQ=3 copies cannot lie in 4 domains"):
        options("--spread rack:4").apply_to(StreamPolicy())


@pytest.mark.parametrize(
    ("regions", "quorum"),
    [
        ([], Quorum(1, 1, 1, 1)),
        (["a"], Quorum(1, 1, 1, 1)),
        (["a", "a"], Quorum(2, 2, 2, 1)),
        (["a", "a", "a", "a"], Quorum(3, 3, 2, 1)),
        (["a", "b", "c"], Quorum(3, 3, 2, 2)),
        (["a", "a", "b"], Quorum(3, 3, 2, 2)),
        (["a", "b", "c", "d"], Quorum(4, 4, 3, 3)),
        (["a", "b", "c", "d", "e"], Quorum(5, 5, 3, 3)),
    ],
)
def test_default_quorum_fits_the_cluster(regions: list[str], quorum: Quorum) -> None:
    bookies = [
        BookieInfo(BookieId(f"b{number}@00000000"), Region(region))
        for number, region in enumerate(regions)
    ]
    assert default_quorum(bookies) == quorum
