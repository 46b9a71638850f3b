"""The survey counts no lost copies, and its alternatives to a quorum are those of ``plan``."""

from random import Random

from rhumbline.backends.memory import MemoryStore
from rhumbline.cli.console.cluster.survey import LedgerSurvey, alternatives, places
from rhumbline.client.connect import Client
from rhumbline.core.metadata.bookie_directory import BookieDirectory
from rhumbline.core.metadata.cluster_layout import initialise_cluster
from rhumbline.core.protocol.bookie_id import BookieId, Region, check_bookie_id
from rhumbline.core.protocol.ledger_metadata import Fragment, LedgerMetadata, LedgerState
from rhumbline.core.wire.registration import LOST, Registration
from rhumbline.regions.durability.copy_states import ClusterCopies, CopyState, Member
from rhumbline.tests.support.fakes.ledger_numbers import create


def cluster(**by_region: int) -> ClusterCopies:
    members = {
        BookieId(f"{region}-{n}@00000001"): Member(CopyState.UP, (region, None, f"r{n}", None))
        for region, count in by_region.items()
        for n in range(count)
    }
    return ClusterCopies(members)


def test_alternatives_say_what_the_loss_of_a_region_would_do() -> None:
    rows = alternatives(cluster(bonn=2, oslo=2, rome=2), (3, 3, 2, 2), ["oslo"])
    assert rows[0]["quorum"] == "3/3/2/2" and rows[0]["is_current"]
    assert rows[0]["regions_survived"] == 1 and rows[0]["writes_resume"] is True
    by_quorum = {row["quorum"]: row for row in rows}
    assert by_quorum["5/5/3/3"]["writes_resume"] is False
    assert by_quorum["5/5/3/3"]["obstacle"]


def test_a_cluster_without_live_bookies_has_no_alternatives() -> None:
    assert alternatives(ClusterCopies({}), None, []) == []


def test_places_name_region_and_rack() -> None:
    assert places(cluster(bonn=1)) == [
        {"bookie": "bonn-0@00000001", "region": "bonn", "rack": "r0", "state": "up"}
    ]


async def test_copies_that_lay_in_a_failed_data_directory_do_not_count() -> None:
    """The console said "whole" of ledgers whose last copies were gone (rule DSK-5)."""
    store = MemoryStore()
    await initialise_cluster(store, Random(1))
    directory = BookieDirectory(store)
    session = await store.session(1_000_000)
    bookies = tuple(check_bookie_id(f"{name}@00000001") for name in ("bonn", "oslo"))
    for bookie in bookies:
        await directory.record_region(bookie, Region(bookie.partition("@")[0]))
        await directory.register(session, Registration(bookie, "host", 1, {LOST: "7"}))
    for ledger_id in (7, 8):
        await create(
            store,
            LedgerMetadata(
                ledger_id, 2, 2, 2, (Fragment(0, bookies),), creation_token=1,
                state=LedgerState.CLOSED, last_entry_id=4, length=50,
            ).with_r(0, 2),
        )  # fmt: skip
    directory.close()
    async with Client("memory://", store=store, moves_data=False) as client:
        found = await LedgerSurvey(client).what_if([])
    closed = found["now"]["ledgers"]["closed"]
    assert (closed["whole"], closed["unavailable"]) == (1, 1)
