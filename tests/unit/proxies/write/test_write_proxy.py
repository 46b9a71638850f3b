"""Write proxy: fan-in, ownership, order, limits, repeated sets, handover."""

import asyncio

import pytest

from rhumbline.core.log.namespace import Namespace
from rhumbline.core.log.policy import FlushPolicy, StreamPolicy
from rhumbline.core.log.write.stream_writer import StreamWriter
from rhumbline.core.protocol.dlsn import Dlsn
from rhumbline.core.protocol.errors import (
    CorruptionError,
    EndOfStreamError,
    InvalidArgumentError,
    NoSuchStreamError,
    NotOwnerError,
    OverRateError,
    RecordTooLargeError,
    RhumblineError,
    TooManyRequestsError,
    UnavailableError,
)
from rhumbline.core.protocol.record_set import HEADER
from rhumbline.core.protocol.start import EARLIEST
from rhumbline.proxies.config import ProxyConfig
from rhumbline.proxies.rpc import rhumbline_pb2 as pb
from rhumbline.proxies.write.append_item import Appended, AppendItem
from rhumbline.proxies.write.append_session import RESULTS_MAX, AppendSession
from rhumbline.tests.support.fakes.log_world import LogWorld
from rhumbline.tests.support.fakes.recorded_log import recorded_log
from rhumbline.tests.unit.proxies.proxy_world import Connection, Outcome, ProxyWorld, an_item

ANNE, BERT = b"a" * 16, b"b" * 16


async def test_sets_of_many_producers_share_entries_and_keep_their_records(log: LogWorld) -> None:
    world = ProxyWorld(log)
    await log.namespace.create_stream("s", StreamPolicy(flush=FlushPolicy(period_ms=10)))
    await world.start("one:1")
    await world.append_ok("one:1", an_item("s", b"first"))
    before = log.ledgers.entries_sent
    items = [an_item("s", b"%d" % n, b"+%d" % n, producer=b"%016d" % n) for n in range(100)]
    results = await asyncio.gather(*(world.append_ok("one:1", item) for item in items))
    assert log.ledgers.entries_sent - before <= 3
    assert all(result.record_count == 2 and result.regions for result in results)
    await world.stop()
    found = dict(await world.contents("s"))
    assert len(found) == 201
    for n, result in enumerate(results):
        first = result.first
        assert found[first] == b"%d" % n
        assert found[first._replace(slot=first.slot + 1)] == b"+%d" % n


async def test_the_times_of_recent_appends_are_told_for_streams_that_are_served(
    log: LogWorld,
) -> None:
    world = ProxyWorld(log)
    for name in ("s", "idle"):
        await log.namespace.create_stream(name, StreamPolicy(flush=FlushPolicy(period_ms=10)))
    await world.start("one:1")
    writes = world.proxies["one:1"].writes
    assert writes is not None
    names = ["test/s", "test/idle", "other/s", "test"]
    assert writes.append_latencies(names) == {}
    for n in range(20):
        await world.append_ok("one:1", an_item("s", b"%d" % n))
    found = writes.append_latencies(names)
    assert set(found) == {"test/s"}
    assert 9 <= found["test/s"]["p50_ms"] <= found["test/s"]["p99_ms"], "the flush period"
    await world.stop()
    assert writes.append_latencies(names) == {}


async def test_stream_has_one_owner_and_other_proxies_redirect_to_it(log: LogWorld) -> None:
    world = ProxyWorld(log)
    await log.namespace.create_stream("s")
    await world.start("one:1", "two:1")
    owner, other = "one:1", "two:1"
    if isinstance(result := await world.append(owner, an_item("s", b"a")), NotOwnerError):
        owner, other = other, owner
        assert result.owner == owner
        await world.append_ok(owner, an_item("s", b"a"))
    for _ in range(3):
        refused = await world.append(other, an_item("s", b"b"))
        assert isinstance(refused, NotOwnerError)
        assert refused.owner == owner
    assert (await log.namespace.describe("s")).epoch == 1
    await world.stop()
    assert [payload for _, payload in await world.contents("s")] == [b"a"]


async def test_home_region_is_preferred(log: LogWorld) -> None:
    world = ProxyWorld(log)
    await world.start("e1:1", "e2:1", region="east")
    await world.start("w1:1", region="west")
    for n in range(8):
        stream = f"s{n}"
        await log.namespace.create_stream(stream)
        await world.proxies["e1:1"].claims.set_home("test", stream, "west")
        refused = await world.append("e1:1", an_item(stream, b"x"))
        assert isinstance(refused, NotOwnerError) and refused.owner == "w1:1"
        await world.append_ok("w1:1", an_item(stream, b"x"))
    await world.proxies["w1:1"].crash()
    writer = world.writer("s1", world.transport("w1:1", "e1:1", "e2:1"))
    await writer.append(b"the west is gone")
    await writer.close()
    await world.stop()
    assert [p for _, p in await world.contents("s1")] == [b"x", b"the west is gone"]


async def test_repeated_set_gets_the_first_result_from_any_owner(log: LogWorld) -> None:
    world = ProxyWorld(log)
    await log.namespace.create_stream("s")
    await world.start("one:1")
    items = [an_item("s", b"%d" % n, producer=ANNE, sequence=n) for n in range(30)]
    firsts = [(await world.append_ok("one:1", item)).first for item in items]
    assert [(await world.append_ok("one:1", item)).first for item in items] == firsts
    await world.proxies["one:1"].crash()
    await world.start("two:1")
    # The newest is in the deduplication table, the others are looked up in the log.
    again = [(await world.append_ok("two:1", item)).first for item in reversed(items)]
    assert again == firsts[::-1]
    fresh = await world.append_ok("two:1", an_item("s", b"30", producer=ANNE, sequence=30))
    assert fresh.first > firsts[-1]
    await world.stop()
    assert [p for _, p in await world.contents("s")] == [b"%d" % n for n in range(31)]


async def test_no_set_overtakes_a_refused_set(log: LogWorld) -> None:
    world = ProxyWorld(log)
    await log.namespace.create_stream("s")
    config = ProxyConfig(stream_records_per_s=10)
    await world.start("one:1", config=config)
    await world.append_ok("one:1", an_item("s", *[b"x"] * 10))
    connection = Connection(world.proxies["one:1"])
    results: dict[str, Outcome] = {}

    def send(name: str, item: AppendItem, *, restarts: bool = False) -> None:
        connection.send(item, lambda result: results.update({name: result}), restarts=restarts)

    send("a0", an_item("s", b"a0", producer=ANNE, sequence=0))
    await asyncio.sleep(2)
    send("a1", an_item("s", b"a1", producer=ANNE, sequence=1))
    send("b0", an_item("s", b"b0", producer=BERT, sequence=0))
    await asyncio.sleep(1)
    assert isinstance(results["a0"], OverRateError) and results["a0"].retry_after_ms > 0
    assert isinstance(results["a1"], NotOwnerError), "it would overtake a0"
    assert not isinstance(results["b0"], RhumblineError), "another producer is not affected"
    send("a0", an_item("s", b"a0", producer=ANNE, sequence=0), restarts=True)
    send("a1", an_item("s", b"a1", producer=ANNE, sequence=1))
    await asyncio.sleep(1)
    await world.stop()
    payloads = [p for _, p in await world.contents("s") if p != b"x"]
    assert payloads == [b"b0", b"a0", b"a1"]


async def test_invalid_sets_get_typed_errors_and_do_not_affect_others(log: LogWorld) -> None:
    world = ProxyWorld(log)
    await log.namespace.create_stream("s", StreamPolicy(record_bytes_max=100))
    await world.start("one:1")
    good = an_item("s", b"good").record_set
    assert isinstance(await world.append("one:1", an_item("none", b"x")), NoSuchStreamError)
    big = await world.append("one:1", an_item("s", b"x" * 101))
    assert isinstance(big, RecordTooLargeError)
    torn = await world.append("one:1", AppendItem("test", "s", good[:-1] + b"?"))
    assert isinstance(torn, CorruptionError)
    two = await world.append("one:1", AppendItem("test", "s", good + good))
    assert isinstance(two, InvalidArgumentError)
    with pytest.raises(InvalidArgumentError):
        AppendItem("test", "s", good[: HEADER.size - 1])
    await world.append_ok("one:1", an_item("s", b"good"))
    await world.stop()
    assert [p for _, p in await world.contents("s")] == [b"good"]


async def test_limits_of_streams_and_waiting_bytes_are_enforced(log: LogWorld) -> None:
    world = ProxyWorld(log)
    for name in ("s", "t"):
        await log.namespace.create_stream(name)
    await world.start("one:1", config=ProxyConfig(streams_max=1, waiting_bytes_max=2000))
    results = await asyncio.gather(
        *(world.append("one:1", an_item("s", b"x" * 800)) for _ in range(3))
    )
    assert [type(a).__name__ for a in results] == ["Appended", "Appended", "TooManyRequestsError"]
    assert isinstance(await world.append("one:1", an_item("t", b"x")), TooManyRequestsError)
    await world.stop()


async def test_released_stream_can_be_taken_over_again(log: LogWorld) -> None:
    world = ProxyWorld(log)
    await log.namespace.create_stream("s")
    await world.start("one:1")
    await world.append_ok("one:1", an_item("s", b"a"))
    writes = world.proxies["one:1"].writes
    with recorded_log("rhumbline.proxies") as lines:
        assert await writes.release("test", "s")
        assert not await writes.release("test", "s")
    ids = {"namespace": "test", "stream": "s", "proxy": "one:1"}
    assert lines.fields("ownership released") == [ids]
    assert lines.events() == ["ownership released"]
    assert await world.proxies["one:1"].claims.owner("test", "s") is None
    segments = await log.segments("s")
    assert [(one.is_completed, one.record_count) for one in segments] == [(True, 1)]
    assert writes.statistics()["records"] == 1, "a counter does not fall with the release"
    assert (await world.append_ok("one:1", an_item("s", b"b"))).first > Dlsn(2, 0, -1)
    found = writes.statistics()
    assert (found["records"], found["sets"], found["acquired"]) == (2, 2, 2)
    await world.stop()


async def test_proxy_that_lost_its_session_gives_its_streams_up(log: LogWorld) -> None:
    world = ProxyWorld(log)
    await log.namespace.create_stream("s")
    await world.start("one:1")
    await world.append_ok("one:1", an_item("s", b"a"))
    membership = world.proxies["one:1"].membership
    lost = membership.session
    assert lost is not None
    await lost.close()
    with recorded_log("rhumbline.proxies") as lines:
        membership._session_lost(lost)
        for _ in range(50):
            result = await world.append("one:1", an_item("s", b"b", producer=ANNE))
            if not isinstance(result, RhumblineError):
                break
            assert result.retryable
            await asyncio.sleep(0.05)
    first, *others, last = lines.events()
    assert (first, last) == ("proxy registration lost", "ownership taken")
    assert {"ownership lost", "proxy registered"} <= set(others)
    assert (await log.namespace.describe("s")).epoch == 2
    await world.stop()
    assert [p for _, p in await world.contents("s")] == [b"a", b"b"]


async def test_registration_that_is_renewed_during_a_takeover_ends_the_takeover(
    log: LogWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = ProxyWorld(log)
    await log.namespace.create_stream("s")
    await world.start("one:1")
    membership = world.proxies["one:1"].membership
    open_writer = Namespace.open_writer

    async def open_late(namespace: Namespace, stream: str) -> StreamWriter:
        lost = membership.session
        assert lost is not None
        await lost.close()
        membership._session_lost(lost)
        while membership.session is None:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        return await open_writer(namespace, stream)

    monkeypatch.setattr(Namespace, "open_writer", open_late)
    result = await world.append("one:1", an_item("s", b"a"))
    assert isinstance(result, NotOwnerError)
    monkeypatch.undo()
    assert (await world.append_ok("one:1", an_item("s", b"b"))).first.lssn >= 1
    await world.stop()


async def test_call_is_not_read_while_too_much_is_outstanding_or_results_are_not_taken(
    log: LogWorld,
) -> None:
    world = ProxyWorld(log)
    await log.namespace.create_stream("s")
    await world.start("one:1")
    session = AppendSession(world.proxies["one:1"].writes, lambda: None, bytes_max=1000)
    session.submit(1, an_item("s", b"x" * 2000), restarts=False)
    waiting = asyncio.ensure_future(session.room())
    await asyncio.sleep(0)
    assert not waiting.done()
    await asyncio.wait_for(waiting, 1)
    assert [id_ for id_, _ in session.take_results()] == [1]
    for id_ in range(RESULTS_MAX + 1):
        await session.take(
            pb.AppendRequest(items=[pb.AppendItem(id=id_)])
        )  # an item without a set is invalid
    waiting = asyncio.ensure_future(session.room())
    await asyncio.sleep(1)
    assert not waiting.done()
    assert len(session.take_results()) == RESULTS_MAX + 1
    await asyncio.wait_for(waiting, 1)
    await world.stop()


async def test_streams_move_to_their_preferred_proxy_when_members_change(log: LogWorld) -> None:
    world = ProxyWorld(log)
    config = ProxyConfig(balance_ms=1_000)
    await world.start("one:1", config=config)
    names = [f"s{n}" for n in range(40)]
    for name in names:
        await log.namespace.create_stream(name)
        await world.append_ok("one:1", an_item(name, b"x"))
    await world.start("two:1", config=config)
    one, two = world.proxies["one:1"], world.proxies["two:1"]
    await asyncio.sleep(1.5)
    assert one.writes.stream_count == 40, "a new proxy may disappear again soon"
    await asyncio.sleep(3)
    assert 10 < one.writes.stream_count < 30, "the share of the new proxy was released"

    await one.membership.set_accepting(False)
    await asyncio.sleep(5)
    assert one.writes.stream_count == 0
    transport = world.transport("one:1", "two:1")
    for name in names:
        writer = world.writer(name, transport)
        await writer.append(b"y")
        await writer.close()
    assert (one.writes.stream_count, two.writes.stream_count) == (0, 40)
    await world.stop()
    assert [p for _, p in await world.contents("s3")] == [b"x", b"y"]


async def test_stream_moves_when_its_home_region_changes(log: LogWorld) -> None:
    world = ProxyWorld(log)
    config = ProxyConfig(balance_ms=1_000)
    await world.start("e:1", region="east", config=config)
    await world.start("w:1", region="west", config=config)
    await log.namespace.create_stream("s")
    await world.proxies["e:1"].claims.set_home("test", "s", "east")
    await world.append_ok("e:1", an_item("s", b"x"))
    await world.proxies["e:1"].claims.set_home("test", "s", "west")
    await asyncio.sleep(3.5)
    refused = await world.append("e:1", an_item("s", b"y"))
    assert isinstance(refused, NotOwnerError) and refused.owner == "w:1"
    await world.append_ok("w:1", an_item("s", b"y"))
    await world.stop()
    assert [p for _, p in await world.contents("s")] == [b"x", b"y"]


async def test_ended_stream_accepts_nothing_and_ending_it_again_is_safe(
    log: LogWorld,
) -> None:
    world = ProxyWorld(log)
    await log.namespace.create_stream("s")
    await world.start("one:1", "two:1")
    writer = world.writer("s")
    late = world.writer("s")
    ticket = writer.append(b"last")
    await writer.end_stream()
    assert (await ticket).dlsn == Dlsn(1, 1, 0)  # after the snapshot of the deduplication table
    with pytest.raises(EndOfStreamError):
        await late.append(b"too late")
    await world.end_stream("s")
    await world.stop()
    reader = await log.namespace.open_reader("s", EARLIEST)
    assert [record.payload async for record in reader] == [b"last"]
    await reader.aclose()


async def test_takeover_that_fails_is_logged_with_the_story_of_the_ownership(
    log: LogWorld,
) -> None:
    world = ProxyWorld(log)
    old = await log.writer("s")
    await old.append(b"a")
    await world.start("one:1")
    log.ledgers.is_recovery_refused = True
    with recorded_log("rhumbline.proxies") as lines:
        for _ in range(2):
            assert isinstance(await world.append("one:1", an_item("s", b"a")), UnavailableError)
    [line] = lines.fields("ownership not taken")
    assert (line["namespace"], line["stream"], line["proxy"]) == ("test", "s", "one:1")
    assert line["error"] == "UnavailableError: stream s could not be taken over in time"
    assert line["story"].endswith(" by FAIL (stream s could not be taken over in time)")
    assert lines.events() == ["ownership not taken"], "at most one line in ten seconds"
    log.ledgers.is_recovery_refused = False
    await world.append_ok("one:1", an_item("s", b"b"))
    await world.stop()
    await old.abort()


async def test_many_takeovers_are_queued_and_none_times_out(log: LogWorld) -> None:
    world = ProxyWorld(log)
    await world.start("one:1", config=ProxyConfig(acquires_max=2, acquire_ms_max=1_000))
    for n in range(30):
        await log.namespace.create_stream(f"s{n}")
    results = await asyncio.gather(
        *(world.append("one:1", an_item(f"s{n}", b"x")) for n in range(30))
    )
    assert all(isinstance(result, Appended) for result in results), results
    await world.stop()


async def test_client_that_cannot_reach_a_live_owner_is_finally_redirected_to_it(
    log: LogWorld,
) -> None:
    world = ProxyWorld(log)
    await log.namespace.create_stream("s")
    await world.start("one:1", "two:1", config=ProxyConfig(acquire_ms_max=1_000))
    owner, other = "one:1", "two:1"
    if isinstance(await world.append(owner, an_item("s", b"a")), RhumblineError):
        owner, other = other, owner
        await world.append_ok(owner, an_item("s", b"a"))
    refused = await world.append(other, an_item("s", b"b", tried=(owner,)))
    assert isinstance(refused, NotOwnerError) and refused.owner == owner
    await world.append_ok(owner, an_item("s", b"b"))
    await world.stop()
    assert [p for _, p in await world.contents("s")] == [b"a", b"b"]


async def test_client_is_redirected_to_an_owner_as_soon_as_a_probe_finds_it_alive(
    log: LogWorld,
) -> None:
    world = ProxyWorld(log)
    await log.namespace.create_stream("s")
    await world.start("one:1", "two:1")
    owner, other = "one:1", "two:1"
    if isinstance(await world.append(owner, an_item("s", b"a")), RhumblineError):
        owner, other = other, owner
        await world.append_ok(owner, an_item("s", b"a"))
    asked = world.proxies[other].membership
    loop = asyncio.get_running_loop()

    def probe(address: str) -> None:
        loop.call_later(0.2, asked.found_alive, address)

    asked.on_reported.append(probe)
    began_s = loop.time()
    refused = await world.append(other, an_item("s", b"b", tried=(owner,)))
    assert isinstance(refused, NotOwnerError)
    assert refused.owner == owner
    assert 0.2 <= loop.time() - began_s <= 0.4
    await world.stop()
    assert not asked.on_alive


async def test_claim_of_a_removed_proxy_is_replaced_without_waiting_for_its_session(
    log: LogWorld,
) -> None:
    """The removed proxy, which was only hung, gives its streams up and redirects."""
    world = ProxyWorld(log)
    await log.namespace.create_stream("s")
    await world.start("one:1", "two:1", config=ProxyConfig(session_ttl_ms=60_000))
    owner, other = "one:1", "two:1"
    if isinstance(await world.append(owner, an_item("s", b"a", producer=ANNE)), NotOwnerError):
        owner, other = other, owner
        await world.append_ok(owner, an_item("s", b"a", producer=ANNE))
    lost, successor = world.proxies[owner].membership, world.proxies[other].membership
    reported: list[str] = []
    successor.on_reported.append(reported.append)
    began = asyncio.get_running_loop().time()
    item = an_item("s", b"b", producer=ANNE, sequence=1, tried=(owner,))
    taking = asyncio.ensure_future(world.append_ok(other, item))
    await asyncio.sleep(0.15)
    assert not taking.done(), "the owner is registered, so its claim holds"
    assert set(reported) == {owner}
    await successor.remove(owner, [lost.own_member.id])
    await taking
    assert asyncio.get_running_loop().time() - began < 0.5
    repeat = await world.append_ok(other, an_item("s", b"a", producer=ANNE, tried=(owner,)))
    assert repeat.record_count == 1
    await asyncio.sleep(0.5)
    assert lost.removed_count == 1
    assert not world.proxies[owner].writes.serves("test", "s")
    assert lost.session is not None, "it has registered again"
    await world.stop()
    assert [payload for _, payload in await world.contents("s")] == [b"a", b"b"]
