"""Whatever happens to a stream between planning and reading, micro-batches add up to its records.

Segments roll, move to the archive, lose their ledgers, expire at exactly their time and are
truncated anywhere, before a batch, between its end being noted, its tasks being planned, and their
reading; and the driver is restarted at each of these points. A strict query then gives exactly the
records of each range or fails with the reason; a lenient one goes on with what can still be read.
"""

from typing import Any

from hypothesis import event, example, given, settings
from hypothesis import strategies as st

from rhumbline.core.protocol.dlsn import FIRST_DLSN, Dlsn
from rhumbline.core.protocol.errors import GapError, NoSuchStreamError
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
"""The name of a method of StreamingWorld, and what it gets."""
Batch = tuple[list[Event], list[Event], list[Event], int | None, int]
"""What happens before it, to its plan, to its reading; its limit; where the driver ends."""
NOTED, READ, FINISHED = 1, 2, 4
"""The driver ends when the batch's end is noted, it is read, it is finished."""

stream = st.sampled_from(STREAMS)
gentle_events = st.one_of(
    st.tuples(st.just("write"), stream, st.lists(st.integers(1, 5), min_size=1, max_size=4)),
    st.tuples(st.just("roll"), stream),
    st.tuples(st.just("archive"), stream, st.integers(1, 2)),
    st.tuples(st.just("maintain"), stream),
)
"""They take nothing away, since no time passes."""
limits_ms = st.sampled_from((TTL_MS, HOT_MS, GRACE_MS))
all_events = st.one_of(
    gentle_events,
    # The sums come to a limit exactly, or miss it by one.
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


def happen(world: StreamingWorld, events: list[Event]) -> None:
    for name, *arguments in events:
        getattr(world, name)(*arguments)


def union_query(world: StreamingWorld, **more: str) -> Query:
    """Over the archive and the ledgers."""
    return Query(world, subscribePattern="s-.*", metadata="sqlite:///here", **more)


def archive_query(world: StreamingWorld, **more: str) -> Query:
    """Over the archive alone."""
    return Query(world, subscribe=",".join(STREAMS), **more)


def inside(rows: list[Row], start: Dlsn, end: Dlsn) -> list[Row]:
    return [row for row in rows if start <= row[0] < end]


def is_one_entry(rows: list[Row]) -> bool:
    return len({(at.lssn, at.entry_id) for at, _ in rows}) == 1


# --- nothing is lost ----------------------------------------------------------------------------


@settings(max_examples=60)
@given(batches(gentle_events))
def test_without_loss_the_union_is_the_log(plan: list[Batch]) -> None:
    with StreamingWorld() as world:
        for one in STREAMS:
            world.write(one, [2, 1])
        query = union_query(world)
        seen: dict[str, list[Row]] = {one: [] for one in STREAMS}
        for batch in plan:
            happen(world, batch[0])
            run_batch(world, query, batch, seen)
        while run_batch(world, query, LAST, seen):
            pass
        assert seen == world.truth
        query.reader.stop()


def run_batch(
    world: StreamingWorld, query: Query, batch: Batch, seen: dict[str, list[Row]]
) -> bool:
    """Runs one micro-batch; False when there was nothing new."""
    _, before_plan, before_read, limit, ends = batch
    if query.begin(limit) is None:
        return False
    happen(world, before_plan)
    if ends & NOTED:
        query.restart()
    query.plan()
    happen(world, before_read)
    found = query.read()
    if ends & READ:
        query.restart()
        query.plan()
        assert query.read() == found
    for one in STREAMS:
        start, end = query.range_of(one)
        rows = found.get(one, [])
        assert end.slot == 0, "ranges end at entry borders"
        assert rows == inside(world.truth[one], start, end)
        share = None if limit is None else max(1, limit // len(STREAMS))
        assert share is None or len(rows) <= share or is_one_entry(rows)
        seen[one] += rows
    query.finish()
    if ends & FINISHED:
        query.restart()
    return True


# --- records go ---------------------------------------------------------------------------------


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
def test_with_loss_a_query_fails_or_goes_on_as_it_was_told(plan: list[Batch]) -> None:
    with StreamingWorld() as world:
        for one in STREAMS:
            world.write(one, [2, 1])
        strict = union_query(world)
        run_beside(world, strict, union_query(world, failOnDataLoss="false"), plan)


@settings(max_examples=60)
@given(batches(all_events))
def test_an_archive_alone_is_read_as_far_as_it_goes(plan: list[Batch]) -> None:
    with StreamingWorld() as world:
        for one in STREAMS:
            world.write(one, [2, 1])
            world.roll(one)
            world.archive(one, 1)
        strict, lenient = archive_query(world), archive_query(world, failOnDataLoss="false")
        for query in (strict, lenient):
            query.start()  # it needs an archive then, and may miss one later
        run_beside(world, strict, lenient, plan)


def run_beside(world: StreamingWorld, strict: Query, lenient: Query, plan: list[Batch]) -> None:
    """Both queries through the same events. A strict one that failed is over."""
    running = [strict, lenient]

    def step(work: str, *given: Any) -> dict[Query, Any]:  # noqa: ANN401 - the queries' methods
        done: dict[Query, Any] = {}
        for query in list(running):
            try:
                done[query] = getattr(query, work)(*given)
            except (GapError, NoSuchStreamError) as error:
                event(f"failed by {work}")
                assert query is strict, error
                assert isinstance(error, NoSuchStreamError) or "failOnDataLoss" in str(error)
                assert is_lost(world, query)
                running.remove(query)
        return done

    for before, before_plan, before_read, limit, ends in [*plan, LAST]:
        happen(world, before)
        step("begin", limit)
        happen(world, before_plan)
        if ends & NOTED:
            step("restart")
        step("plan")
        happen(world, before_read)
        for query, found in step("read").items():
            check(world, query, found, is_strict=query is strict)
            query.finish()
    for query in (strict, lenient):
        query.reader.stop()


def check(
    world: StreamingWorld, query: Query, found: dict[str, list[Row]], *, is_strict: bool
) -> None:
    """A strict query gives all that is in its range; a lenient one what can still be read."""
    for one in STREAMS:
        start, end = query.range_of(one)
        rows, written = found.get(one, []), inside(world.truth[one], start, end)
        if is_strict:
            assert rows == written
            continue
        assert [row for row in written if row in rows] == rows, "in order, once, and no others"
        left = [row for row in written if is_left(world, query, one, row[0])]
        assert set(left) <= set(rows)
        event("less than was written" if len(rows) < len(written) else "all")


def is_left(world: StreamingWorld, query: Query, one: str, at: Dlsn) -> bool:
    """Whether a record can be read by who comes now."""
    return at >= world.start(one) if query.asks_servers else at.lssn in world.archived(one)


def is_lost(world: StreamingWorld, query: Query) -> bool:
    """Whether some of what the query has not finished is gone.

    Or so it seems: where even the metadata of the segment is gone in which the query stopped,
    nobody knows whether it had read that segment to its end.
    """
    return any(
        world.is_purged(one, query.finished_to(one, FIRST_DLSN).lssn) for one in STREAMS
    ) or any(
        not is_left(world, query, one, at)
        for one in STREAMS
        for at, _ in world.truth[one]
        if at >= query.finished_to(one, FIRST_DLSN)
    )
