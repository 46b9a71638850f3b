"""``rhumbline durability`` says what is at risk and why, and ``--strict`` fails when it should."""

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest
from click.testing import CliRunner, Result

from rhumbline.backends.open_store import open_store
from rhumbline.cli.main import main
from rhumbline.core.metadata.bookie_directory import BookieDirectory
from rhumbline.core.metadata.cluster_layout import Paths, initialise_cluster
from rhumbline.core.protocol.bookie_id import BookieId, Region, check_bookie_id
from rhumbline.core.protocol.ledger_metadata import Fragment, LedgerMetadata, LedgerState
from rhumbline.core.wire.cookie import Cookie
from rhumbline.core.wire.registration import HOST, RACK, Registration, encode
from rhumbline.tests.support.fakes.ledger_numbers import create

REGIONS = ("bonn", "oslo", "rome")
BOOKIES = tuple(
    check_bookie_id(f"{region}-{n}@00000001") for region in REGIONS for n in (1, 2)
)  # fmt: skip
ON = {name.partition("@")[0]: name for name in BOOKIES}


class Cluster:
    """A store with two bookies in each of three regions, and some ledgers."""

    def __init__(self, uri: str) -> None:
        self.uri = uri

    async def fill(self, *ledgers: LedgerMetadata) -> None:
        store = await open_store(self.uri)
        await initialise_cluster(store, Random(1))
        directory = BookieDirectory(store)
        for bookie in BOOKIES:
            name = bookie.partition("@")[0]
            await directory.record_region(bookie, Region(name[:4]))
            await directory.write_cookie(Cookie(bookie, "journal", ("ledgers",), "cluster"))
            properties = {RACK: f"rack-{name[-1]}", HOST: name}
            data = encode(Registration(bookie, "127.0.0.1", 1, properties))
            await store.create(Paths().registration(bookie, read_only=False), data)
        for metadata in ledgers:
            await create(store, metadata)
        directory.close()
        await store.close()

    async def kill(self, *names: str) -> None:
        store = await open_store(self.uri)
        for name in names:
            await store.delete(Paths().registration(ON[name], read_only=False))
        await store.close()

    def run(self, *arguments: str) -> Result:
        return CliRunner().invoke(main, ["durability", "-u", self.uri, *arguments])

    def document(self, *arguments: str) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.run("-o", "json", *arguments).stdout)
        return found


def ledger(ledger_id: int, stream: str, *names: str, end: int | None) -> LedgerMetadata:
    bookies: tuple[BookieId, ...] = tuple(ON[name] for name in names)
    return LedgerMetadata(
        ledger_id, 3, 3, 2, (Fragment(0, bookies),), creation_token=1,
        state=LedgerState.OPEN if end is None else LedgerState.CLOSED,
        last_entry_id=-1 if end is None else end - 1, length=100 * (end or 0),
        custom={"rhumbline.namespace": b"main", "rhumbline.stream": stream.encode()},
    ).with_r(0, 2)  # fmt: skip


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    found = Cluster(f"sqlite://{tmp_path}/metadata.db")
    asyncio.run(
        found.fill(
            ledger(1, "orders", "bonn-2", "oslo-2", "rome-1", end=50),
            ledger(2, "orders", "bonn-2", "oslo-2", "rome-1", end=None),
            ledger(3, "heat", "bonn-1", "oslo-1", "rome-1", end=20),
        )
    )
    yield found


def test_a_healthy_cluster_is_safe(cluster: Cluster) -> None:
    result = cluster.run("--strict")
    assert result.exit_code == 0, result.output
    assert "bookies: 6 up" in result.stdout
    assert "nothing is at risk now" in result.stdout
    document = cluster.document("--streams")
    assert document["now"]["ledgers"]["open"]["whole"] == 1
    assert document["now"]["ledgers"]["closed"]["whole"] == 2
    assert document["now"]["one_failure_from_loss"]["region"] == {"open": 0, "closed": 0}
    assert [row["lost"] for row in document["what_if"]] == [["bonn"], ["oslo"], ["rome"]]
    assert [row["stream"] for row in document["streams"]] == ["main/heat", "main/orders"]


def test_one_disk_that_is_all_that_is_left_fails_a_strict_check(cluster: Cluster) -> None:
    """bonn-2 and oslo-2 were killed, and `--lose rome --strict` said 0 with exit code 0."""
    asyncio.run(cluster.kill("bonn-2", "oslo-2"))
    result = cluster.run("--lose", "rome", "--strict")
    assert result.exit_code == 3
    assert result.stderr.strip() == (
        "rhumbline: 2 ledgers (1 open) at risk now: 2 doubtful, bonn-2@00000001 is down, "
        "oslo-2@00000001 is down; the loss of rome may lose entries of 2 ledgers, "
        "2 of which would have no live copy"
    )
    document = cluster.document("--lose", "rome", "--streams")
    now, (after,) = document["now"], document["what_if"]
    assert now["ledgers"]["open"]["doubtful"] == now["ledgers"]["closed"]["doubtful"] == 1
    assert now["one_failure_from_loss"]["bookie"] == {"open": 1, "closed": 1}
    assert now["streams_at_risk"] == ["main/orders"]
    assert now["bookies"] == {
        "up": 4, "draining": 0, "limbo": 0, "incomplete": 0, "down": 2, "lost": 0,
        "decommissioned": 0,
    }  # fmt: skip
    assert {cause["bookie"] for cause in now["causes"]} == {ON["bonn-2"], ON["oslo-2"]}
    assert after["entries"]["unavailable"] == 50
    assert after["ledgers"]["open"]["unavailable"] == 1
    assert after["streams_that_may_lose"] == ["main/orders"]
    orders = next(row for row in document["streams"] if row["stream"] == "main/orders")
    assert (orders["verdict"], orders["one_bookie_from_loss"]) == ("doubtful", 2)
    table = cluster.run("--streams").stdout
    assert "main/orders" in table and "AFTER LOSING" in table
    assert "2 ledgers (1 open) at risk now" in table


@pytest.mark.parametrize(
    ("losses", "exit_code"),
    [
        (("bookie:rome-1",), 0),
        (("host:rome/rack-1/rome-1",), 0),
        (("rack:rome/rack-1",), 0),
        (("region:rome",), 0),
        (("bookie:bonn-2", "bookie:oslo-2"), 3),
        (("bookie:bonn-1", "rack:oslo/rack-2"), 0),
        (("rack:bonn/rack-2", "oslo"), 3),
        (("bonn", "oslo", "rome"), 3),
    ],
)
def test_any_kind_of_loss_can_be_asked_for(
    cluster: Cluster, losses: tuple[str, ...], exit_code: int
) -> None:
    options = [part for loss in losses for part in ("--lose", loss)]
    assert cluster.run(*options).exit_code == 0, "only --strict fails"
    assert cluster.run(*options, "--strict").exit_code == exit_code


def test_unknown_places_and_damaged_metadata_are_reported(cluster: Cluster) -> None:
    result = cluster.run("--lose", "atlantis")
    assert result.exit_code != 0
    assert "the regions are: bonn, oslo, rome" in result.stderr

    async def damage() -> None:
        store = await open_store(cluster.uri)
        await store.put(Paths().ledger(3), b"damaged")
        await store.close()

    asyncio.run(damage())
    result = cluster.run("--strict")
    assert result.exit_code == 3
    assert "nothing is known about 1 ledger with damaged metadata" in result.stderr
