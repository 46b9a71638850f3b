"""Links: connecting on demand, the connect time-out, and the backoff after failures."""

import asyncio
from random import Random

import pytest

from rhumbline.core.ledger.config import LedgerConfig
from rhumbline.core.ledger.connection.bookie_connection import BookieConnection
from rhumbline.core.ledger.connection.bookie_link import BookieLink, address_for
from rhumbline.core.ledger.connection.link_traffic import LinkTraffic
from rhumbline.core.protocol.bookie_id import BookieId, Region
from rhumbline.core.protocol.errors import (
    BookieUnavailableError,
    ClosedError,
    NoSuchObjectError,
    ProtocolError,
)
from rhumbline.core.runtime.runtime import Runtime
from rhumbline.core.runtime.tasks import Tasks
from rhumbline.core.wire.registration import Registration
from rhumbline.tests.support.fakes.recorded_log import recorded_log
from rhumbline.tests.unit.core.ledger.world import FixedClock, World, run_in_world, until

pytestmark = pytest.mark.run_by(runner=run_in_world)

CONFIG = LedgerConfig(backoff_ms_min=100, backoff_ms_max=400, connect_timeout_ms=700)


class Addresses:
    """The registration of every bookie, after ``delay_s``, or ``error``."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.delay_s = 0.0
        self.error: Exception | None = None
        self.properties: dict[str, str] = {}

    async def registration(self, bookie: BookieId) -> Registration:
        await asyncio.sleep(self.delay_s)
        if self.error is not None:
            raise self.error
        return Registration(bookie, "host", self._world.by_id[bookie].port, self.properties)


class Middle(Random):
    """Returns 0.5, so that pauses have no jitter."""

    def random(self) -> float:
        return 0.5


def link_to(
    world: World, addresses: Addresses, *, region: str | None = "a", tasks: Tasks | None = None
) -> BookieLink:
    return BookieLink(
        world.bookies[0].bookie,
        addresses,
        runtime=Runtime(FixedClock(), Middle()),
        config=CONFIG,
        region=Region(region) if region else None,
        tasks=Tasks() if tasks is None else tasks,
    )


async def lost(link: BookieLink) -> float:
    """Return how long the link backs off from now on, in milliseconds."""
    loop = asyncio.get_running_loop()
    await until(lambda: link.connection is None)
    began = loop.time()
    assert link.is_backing_off
    assert link.connect() is None
    await until(lambda: not link.is_backing_off)
    return (loop.time() - began) * 1000


async def test_link_connects_only_on_demand_and_once() -> None:
    world = World("a")
    link = link_to(world, Addresses(world))
    await asyncio.sleep(10)
    assert link.connection is None
    assert not link.is_backing_off
    assert str(link.last_error) == "b0@00000000: not connected yet"
    connection = link.connect()
    assert connection is not None
    assert link.connect() is connection is link.connection
    await connection.wait_ready()
    assert link.connect() is connection
    assert len(world.bookies[0].pipes) == 1
    link.close(ClosedError("end"))


async def test_closing_ends_the_connection_with_the_reason() -> None:
    world = World("a")
    link = link_to(world, Addresses(world))
    link.close(ClosedError("nothing to do"))
    connection = link.connect()
    assert connection is not None
    await connection.wait_ready()
    reason = ClosedError("end")
    link.close(reason)
    assert link.connection is None
    assert link.last_error is reason


async def test_pauses_after_refused_connections_double_up_to_the_longest() -> None:
    world = World("a")
    world.bookies[0].is_down = True
    link = link_to(world, Addresses(world))
    pauses = []
    for _ in range(4):
        assert link.connect() is not None
        pauses.append(await lost(link))
    assert pauses == [pytest.approx(expected, abs=2) for expected in (100, 200, 400, 400)]
    assert isinstance(link.last_error, BookieUnavailableError)
    assert str(link.last_error) == "cannot connect to b0@00000000: port 9000"


async def test_connection_that_the_bookie_closes_while_it_is_unused_is_no_failure() -> None:
    world = World("a")
    link = link_to(world, Addresses(world))
    with recorded_log("rhumbline.core.ledger.connection") as log:
        for exc in (None, ConnectionResetError("reset")):
            connection = link.connect()
            assert connection is not None
            await connection.wait_ready()
            connection.connection_lost(exc)
            assert link.connection is None
            assert log.events() == ([] if exc is None else ["bookie unavailable"])
            await until(lambda: not link.is_backing_off)


async def test_pauses_begin_anew_after_a_connection_that_was_established() -> None:
    world = World("a")
    link = link_to(world, Addresses(world))
    world.bookies[0].is_down = True
    with recorded_log("rhumbline.core.ledger.connection") as log:
        for _ in range(3):
            link.connect()
            await lost(link)
        world.bookies[0].is_down = False
        connection = link.connect()
        assert connection is not None
        await connection.wait_ready()
        await asyncio.sleep(0)
    assert log.events() == ["bookie unavailable", "bookie available"], "one line for each change"
    assert log.fields("bookie unavailable") == [
        {
            "bookie": link.bookie,
            "error": "BookieUnavailableError: cannot connect to b0@00000000: port 9000",
        }
    ]
    assert log.fields("bookie available")[0]["outage_ms"] == pytest.approx(707, abs=20)
    connection.fail(BookieUnavailableError("broken"))
    assert await lost(link) == pytest.approx(100, abs=2)
    assert str(link.last_error) == "broken"


@pytest.mark.parametrize("error", [NoSuchObjectError("unknown"), OSError("no route")])
async def test_bookie_without_a_usable_address_is_unavailable(error: Exception) -> None:
    world = World("a")
    addresses = Addresses(world)
    addresses.error = error
    link = link_to(world, addresses)
    link.connect()
    await lost(link)
    assert isinstance(link.last_error, BookieUnavailableError)
    assert str(link.last_error) == f"cannot connect to b0@00000000: {error}"


async def test_slow_attempt_to_connect_is_ended_by_the_time_out() -> None:
    world = World("a")
    addresses = Addresses(world)
    addresses.delay_s = 3600.0
    link = link_to(world, addresses)
    link.connect()
    await until(lambda: link.connection is None)
    assert asyncio.get_running_loop().time() == pytest.approx(0.7, abs=0.002)
    assert str(link.last_error) == "cannot connect to b0@00000000: timed out"


async def test_bookie_that_does_not_prove_its_identity_in_time_is_unavailable() -> None:
    world = World("a")
    world.bookies[0].on_frame = lambda *_: None  # type: ignore[method-assign]
    link = link_to(world, Addresses(world))
    connection = link.connect()
    assert connection is not None
    await until(lambda: link.connection is None)
    assert asyncio.get_running_loop().time() == pytest.approx(0.7, abs=0.002)
    with pytest.raises(BookieUnavailableError):
        await connection.wait_ready()
    assert not world.bookies[0].pipes[0].is_open


async def test_loss_of_an_older_connection_does_not_affect_the_present_one() -> None:
    world = World("a")
    link = link_to(world, Addresses(world))
    old = link.connect()
    assert old is not None
    await old.wait_ready()
    old.fail(BookieUnavailableError("broken"))
    await lost(link)
    present = link.connect()
    assert present is not None
    link.on_lost(old, BookieUnavailableError("again"))
    assert link.connection is present
    assert not link.is_backing_off
    other = BookieConnection(link.bookie, CONFIG, LinkTraffic(), link.on_lost)
    other.fail(BookieUnavailableError("foreign"))
    assert link.connection is present
    assert str(link.last_error) == "broken"


async def test_cancelled_attempt_fails_its_requests() -> None:
    world = World("a")
    tasks = Tasks()
    link = link_to(world, Addresses(world), tasks=tasks)
    link.connect()
    await asyncio.sleep(0)
    await tasks.aclose()
    assert link.connection is None
    assert str(link.last_error) == "connecting to b0@00000000 was cancelled"
    await asyncio.sleep(60)
    assert not link.is_backing_off
    assert link.connect() is None, "the owner of its tasks is closed"


@pytest.mark.parametrize(("region", "port"), [("a", 9001), ("b", 9000), (None, 9000)])
async def test_address_of_the_own_region_is_connected_to(region: str | None, port: int) -> None:
    world = World("ab")
    addresses = Addresses(world)
    addresses.properties = {"address.a": "relay:9001"}
    world.bookies[1].bookie = world.bookies[0].bookie  # the relay leads to it
    link = link_to(world, addresses, region=region)
    connection = link.connect()
    assert connection is not None
    await connection.wait_ready()
    assert [bool(bookie.pipes) for bookie in world.bookies] == [port == 9000, port == 9001]


async def test_region_of_the_name_none_is_no_missing_region() -> None:
    special = Registration(BookieId("b@00000001"), "h", 1, {"address.None": "relay:99"})
    assert address_for(special, None) == ("h", 1)


async def test_malformed_address_is_shortened_in_the_message() -> None:
    special = Registration(BookieId("b@00000001"), "h", 1, {"address.a": "x" * 100})
    with pytest.raises(ProtocolError) as caught:
        address_for(special, Region("a"))
    assert str(caught.value) == f"b@00000001 advertises {'x' * 80!r} to a, not host:port"
