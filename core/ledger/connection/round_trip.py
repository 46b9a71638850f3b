"""Measures the round trip to one bookie, without its disk (rule LED-25)."""

import asyncio

from ...protocol.bookie_id import BookieId
from ...protocol.errors import BookieUnavailableError, RhumblineError
from ...wire import bookkeeper_pb2 as pb
from ...wire import v3
from .bookie_connection import BookieConnection
from .bookie_pool import BookiePool

_ATTEMPTS = 3


async def measure_round_trip_ms(pool: BookiePool, bookie: BookieId) -> float:
    """Return the milliseconds that a request without I/O takes, on an established connection.

    It is the shortest of three attempts, as one of them may meet a short pause of either process.
    Raises BookieUnavailableError and what a connection raises at its deadline.
    """
    link = pool.message_link(bookie)
    connection = link.connect()
    if connection is None:
        raise BookieUnavailableError(f"{bookie}: {link.last_error}")
    await connection.wait_ready()
    return min([await _round_trip_ms(connection) for _ in range(_ATTEMPTS)])


async def _round_trip_ms(connection: BookieConnection) -> float:
    loop = asyncio.get_running_loop()
    done: asyncio.Future[None] = loop.create_future()

    def on_response(error: RhumblineError | None, response: pb.Response | None) -> None:
        if done.done():
            return
        if error is None:
            done.set_result(None)
        else:
            done.set_exception(error)

    began = loop.time()
    if not connection.send_message(v3.bookie_info_request(0), on_response):
        raise BookieUnavailableError(f"{connection.bookie}: too much in flight")
    await done
    return (loop.time() - began) * 1000
