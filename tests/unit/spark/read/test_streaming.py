"""Micro-batches add up to the records of a stream, whatever happens to it meanwhile.

Segments roll, move to the archive, lose their ledgers, expire at exactly their time and are
truncated anywhere. This happens before a batch, after its end is noted, after its tasks are
planned, and before they read; and the driver restarts at each of these points. A strict query then
returns exactly the records of each range or fails with the reason. A lenient query continues with
the records that still exist.
"""

from typing import Any

import pytest
from hypothesis import event, example, given, settings
from hypothesis import strategies as st

from rhumbline.core.protocol.dlsn import FIRST_DLSN, Dlsn
from rhumbline.core.protocol.errors import GapError, InvalidPositionError, NoSuchStreamError
from rhumbline.tests.unit.spark.streaming_world import (
    GRACE_MS,
    HOT_MS,
    TTL_MS,
    Query,
    Row,
    StreamingWorld,
)

STREAMS = ("s-one", "s-two")
Event = tuple[Any, ...]
"""The name of a method of StreamingWorld and its arguments."""
Batch = tuple[list[Event], list[Event], list[Event], int | None, int]
"""Events before the batch, before planning and before reading; the limit; where the driver ends."""
NOTED, READ, FINISHED = 1, 2, 4
"""The driver ends after the end of the batch is noted, after reading, after the batch."""

stream = st.sampled_from(STREAMS)
gentle_events = st.one_of(
    st.tuples(st.just("write"), stream, st.lists(st.integers(1, 5), min_size=1, max_size=4)),
    st.tuples(st.just("roll"), stream),
    st.tuples(st.just("archive"), stream, st.integers(1, 2)),
    st.tuples(st.just("maintain"), stream),
)
"""Events that delete no records, because no time passes."""
limits_ms = st.sampled_from((TTL_MS, HOT_MS, GRACE_MS))
all_events = st.one_of(
    gentle_events,
    # The sums reach a limit exactly or miss it by one.
    st.tuples(st.just("pass_time"), limits_ms.flatmap(lambda ms: st.sampled_from((ms - 1, 1, ms)))),
    st.tuples(st.just("maintain"), stream),
    st.tuples(st.just("expire"), stream),
    st.tuples(st.just("truncate"), stream, st.integers(0, 1000)),
)


def batches(events: "st.SearchStrategy[Event]") -> "st.SearchStrategy[list[Batch]]":
    some = st.lists(events, max_size=5)
    limit = st.none() | st.integers(1, 12)
    return st.lists(st.tuples(some, some, some, limit, st.integers(0, 7)), min_size=1, max_size=6)


LAST: Batch = ([], [], [], None, 0)


def apply_events(world: StreamingWorld, events: list[Event]) -> None:
    for name, *arguments in events:
        getattr(world, name)(*arguments)


def union_query(world: StreamingWorld, **more: str) -> Query:
    """Return a query on the archive and the ledgers."""
    return Query(world, subscribePattern="s-.*", metadata="sqlite:///here", **more)


def archive_query(world: StreamingWorld, **more: str) -> Query:
    """Return a query on the archive alone."""
    return Query(world, subscribe=",".join(STREAMS), **more)


def inside(rows: list[Row], start: Dlsn, end: Dlsn) -> list[Row]:
    return [row for row in rows if start <= row[0] < end]


def is_one_entry(rows: list[Row]) -> bool:
    return len({(at.lssn, at.entry_id) for at, _ in rows}) == 1


# --- without data loss ---------------------------------------------------------------------------


@settings(max_examples=60)
@given(batches(gentle_events))
def test_without_data_loss_every_record_is_read_once(plan: list[Batch]) -> None:
    with StreamingWorld() as world:
        for one in STREAMS:
            world.write(one, [2, 1])
        query = union_query(world)
        seen: dict[str, list[Row]] = {one: [] for one in STREAMS}
        for batch in plan:
            apply_events(world, batch[0])
            run_batch(world, query, batch, seen)
        while run_batch(world, query, LAST, seen):
            pass
        assert seen == world.truth
        query.reader.stop()


def run_batch(
    world: StreamingWorld, query: Query, batch: Batch, seen: dict[str, list[Row]]
) -> bool:
    """Run one micro-batch. Return False if there was nothing new."""
    _, before_plan, before_read, limit, ends = batch
    if query.begin(limit) is None:
        return False
    apply_events(world, before_plan)
    if ends & NOTED:
        query.restart()
    query.plan()
    apply_events(world, before_read)
    found = query.read()
    if ends & READ:
        query.restart()
        query.plan()
        assert query.read() == found
    for one in STREAMS:
        start, end = query.range_of(one)
        rows = found.get(one, [])
        assert end.slot == 0, "ranges end at entry boundaries"
        assert rows == inside(world.truth[one], start, end)
        share = None if limit is None else max(1, limit // len(STREAMS))
        assert share is None or len(rows) <= share or is_one_entry(rows)
        seen[one] += rows
    query.finish()
    if ends & FINISHED:
        query.restart()
    return True


# --- with data loss ------------------------------------------------------------------------------


TRUNCATED_BEFORE_A_LIMITED_BATCH: list[Batch] = [
    ([], [], [("write", "s-two", [1, 1]), ("truncate", "s-two", 700)], 1, 0),
    (*LAST[:3], 1, 0),
]
READ_TO_ITS_END_AND_EXPIRED: list[Batch] = [
    ([], [], [("roll", "s-two")], None, 0),
    (
        [("pass_time", TTL_MS), ("maintain", "s-two"), ("write", "s-two", [2, 1])],
        [], [], 3, 0,
    ),
]  # fmt: skip


@settings(max_examples=80)
@given(batches(all_events))
@example(TRUNCATED_BEFORE_A_LIMITED_BATCH)
@example(READ_TO_ITS_END_AND_EXPIRED)
def test_with_data_loss_a_query_fails_or_continues_as_configured(plan: list[Batch]) -> None:
    with StreamingWorld() as world:
        for one in STREAMS:
            world.write(one, [2, 1])
        strict = union_query(world)
        run_beside(world, strict, union_query(world, failOnDataLoss="false"), plan)


@settings(max_examples=60)
@given(batches(all_events))
def test_an_archive_without_a_cluster_is_read_to_its_end(plan: list[Batch]) -> None:
    with StreamingWorld() as world:
        for one in STREAMS:
            world.write(one, [2, 1])
            world.roll(one)
            world.archive(one, 1)
        strict, lenient = archive_query(world), archive_query(world, failOnDataLoss="false")
        for query in (strict, lenient):
            query.start()  # while there is an archive; it may be deleted later
        run_beside(world, strict, lenient, plan)


def run_beside(world: StreamingWorld, strict: Query, lenient: Query, plan: list[Batch]) -> None:
    """Run both queries through the same events; a failed strict query runs no further."""
    running = [strict, lenient]

    def step(method: str, *arguments: Any) -> dict[Query, Any]:  # noqa: ANN401 - the queries' methods
        done: dict[Query, Any] = {}
        for query in list(running):
            try:
                done[query] = getattr(query, method)(*arguments)
            except (GapError, NoSuchStreamError) as error:
                event(f"failed by {method}")
                assert query is strict, error
                assert isinstance(error, NoSuchStreamError) or "failOnDataLoss" in str(error)
                assert may_have_lost_records(world, query)
                running.remove(query)
        return done

    for before, before_plan, before_read, limit, ends in [*plan, LAST]:
        apply_events(world, before)
        step("begin", limit)
        apply_events(world, before_plan)
        if ends & NOTED:
            step("restart")
        step("plan")
        apply_events(world, before_read)
        for query, found in step("read").items():
            check(world, query, found, is_strict=query is strict)
            query.finish()
    for query in (strict, lenient):
        query.reader.stop()


def check(
    world: StreamingWorld, query: Query, found: dict[str, list[Row]], *, is_strict: bool
) -> None:
    """Check the rows: all of the range if strict, else at least those that still exist."""
    for one in STREAMS:
        start, end = query.range_of(one)
        rows, written = found.get(one, []), inside(world.truth[one], start, end)
        if is_strict:
            assert rows == written
            continue
        assert [row for row in written if row in rows] == rows, "in order, once, and nothing else"
        left = [row for row in written if still_exists(world, query, one, row[0])]
        assert set(left) <= set(rows)
        event("less than was written" if len(rows) < len(written) else "all")


def still_exists(world: StreamingWorld, query: Query, one: str, at: Dlsn) -> bool:
    """True if a query that starts now can read the record."""
    return at >= world.start(one) if query.uses_cluster else at.lssn in world.archived(one)


def may_have_lost_records(world: StreamingWorld, query: Query) -> bool:
    """True if the query may have lost records.

    That is also the case if the metadata of the segment in which the query stopped was purged: it
    is then unknown if the query had read that segment to its end.
    """
    return any(
        world.is_purged(one, query.finished_to(one, FIRST_DLSN).lssn) for one in STREAMS
    ) or any(
        not still_exists(world, query, one, at)
        for one in STREAMS
        for at, _ in world.truth[one]
        if at >= query.finished_to(one, FIRST_DLSN)
    )


# --- a stream that is deleted and created again ---------------------------------------------------


def recreate(world: StreamingWorld, name: str, entries: list[int]) -> None:
    world.roll(name)
    world.run(world.world.namespace.delete_stream(name))
    world.truth[name] = []
    world.write(name, entries)


def test_a_checkpoint_of_a_deleted_stream_never_skips_records_of_the_next_one() -> None:
    """The query took the old position for one of the new stream and read nothing of it."""
    with StreamingWorld() as world:
        world.write("s-one", [2, 1, 4])
        strict, lenient = union_query(world), union_query(world, failOnDataLoss="false")
        for query in (strict, lenient):
            assert query.begin(None) is not None
            query.plan()
            assert query.read() == world.truth
            query.finish()
        recreate(world, "s-one", [1, 1])
        with pytest.raises(InvalidPositionError, match="another stream than s-one"):
            strict.begin(None)
        assert lenient.begin(None) is not None
        lenient.plan()
        assert lenient.read() == world.truth
        lenient.finish()
        assert lenient.begin(None) is None
        for query in (strict, lenient):
            query.reader.stop()


def test_a_batch_planned_for_a_deleted_stream_reads_nothing_of_the_next_one() -> None:
    with StreamingWorld() as world:
        world.write("s-one", [2, 1, 4])
        query = union_query(world)
        assert query.begin(None) is not None
        recreate(world, "s-one", [5, 5, 5, 5])
        with pytest.raises(InvalidPositionError):
            query.plan()
        query.reader.stop()
