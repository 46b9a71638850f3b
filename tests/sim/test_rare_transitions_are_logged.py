"""Each rare transition of a simulated cluster has exactly its log line, in virtual time."""

import asyncio
from collections import Counter
from typing import Any

from rhumbline.core.protocol.ledger_metadata import LedgerState
from rhumbline.regions.states import PlacementState
from rhumbline.tests.support.simulation.region_run import RegionRun, plan, run_script

LOST = "west"


def lines(run: RegionRun, event: str) -> list[dict[str, Any]]:
    """Return the fields of each line of an event."""
    records = run.world.log.records
    assert len(records) < (records.maxlen or 0), "some lines were dropped"
    return [r.__dict__["event_fields"] for r in records if r.__dict__["event"] == event]


def test_the_loss_of_a_region_is_told_by_the_log() -> None:
    async def script(run: RegionRun) -> None:
        await run.acks(30, 15)
        run.destroy(LOST)
        run.write_in("north")
        await run.acks(30, 60)
        await run.whole(regions_min=2, within_s=120)
        run.apps.appends_max = 0
        await asyncio.sleep(10)

    run = run_script(script, plan("logged outage"))
    members = [b for b, region in run.cluster.regions.items() if region == LOST]
    events = Counter(record.__dict__["event"] for record in run.world.log.records)

    # One takeover by each writer that claimed the stream, with rising epochs.
    epochs = [line["epoch"] for line in lines(run, "stream claimed")]
    assert epochs == sorted(set(epochs)) and len(epochs) >= 2
    taken = [(line["segment"], line["ledger"]) for line in lines(run, "stream taken over")]
    assert len(taken) == len(set(taken)) <= len(epochs)

    # Each completed segment is logged once; each one in use began by a takeover or a roll.
    begun = [line["segment"] for line in lines(run, "segment rolled")]
    begun += [segment for segment, _ in taken]
    assert sorted(begun) == list(range(1, len(begun) + 1))
    completed = [line["segment"] for line in lines(run, "segment completed")]
    assert len(completed) == len(set(completed)) and set(completed) <= set(begun)

    # Ensemble changes match the fragments of the metadata.
    fragments = {ledger.ledger_id: len(ledger.fragments) for ledger in run.ledgers()}
    changed = Counter(line["ledger"] for line in lines(run, "ensemble changed"))
    assert all(fragments.get(ledger, n + 1) >= n + 1 for ledger, n in changed.items())

    # A recovered ledger is closed at the entry that the line names.
    ends = {m.ledger_id: m.last_entry_id for m in run.ledgers() if m.state is LedgerState.CLOSED}
    assert events["ledger recovered"] >= 1
    for line in lines(run, "ledger recovered"):
        assert ends.get(line["ledger"], line["last_entry"]) == line["last_entry"]

    # Exactly one auditor at a time; it misses the destroyed bookies.
    assert 0 <= events["auditor elected"] - events["auditor role ended"] <= 1
    assert {line["bookie"] for line in lines(run, "bookie absent")} >= set(members)
    assert {line["ledger"] for line in lines(run, "repair done")} <= {
        line["ledger"] for line in lines(run, "repair began")
    }
    assert lines(run, "repair needed")
    assert lines(run, "copies placed together") == [], "no zone is configured"
    first = run._ledger_versions()[0][0].metadata
    assert first is not None
    in_use = set(members) & set(first.bookies())
    assert in_use, "the outage concerned the ledger that was being written"
    assert {line["bookie"] for line in lines(run, "bookie unavailable")} >= in_use

    # Virtual time, which rises, and the name of a simulated host; no secret, no data.
    times = [record.created for record in run.world.log.records]
    assert times == sorted(times) and times[-1] <= run.world.loop.now
    hosts = {*run.world.hosts, "world"}
    assert {record.__dict__["source"] for record in run.world.log.records} <= hosts
    text = "\n".join(record.getMessage() for record in run.world.log.records)
    assert not [m for m in run.ledgers() if m.password and m.password.hex() in text]


def test_a_drain_is_told_by_the_log() -> None:
    async def script(run: RegionRun) -> None:
        await run.acks(20, 15)
        await run.set_region(LOST, PlacementState.DRAINED)
        await run.acks(30, 15)

    run = run_script(script, plan("logged drain", roll_ms=3_600_000), repairs=False)
    asked = [line["ledger"] for line in lines(run, "ledger drain requested")]
    assert asked
    assert lines(run, "segment rolled")
