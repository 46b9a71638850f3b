"""The applications of a region: ``-m ...partition.programs ROLE URI REGION NAMESPACE OWNER STORE``.

The role ``write`` appends numbered records until it is killed; ``read`` reads everything that there
is and ends; ``follow`` reads until it is killed. STORE is the URI of the regional metadata store of
the region OWNER. Each writes JSON lines to standard output. Times are those of the machine's
monotonic clock, which all processes share.
"""

import asyncio
import json
import sys
import time
from contextlib import suppress
from typing import Any

from ....client.connect import Client
from ....client.system_runtime import run
from ....core.log.read.stream_reader import StreamReader
from ....core.log.write.stream_writer import StreamWriter
from ....core.protocol.dlsn import Dlsn
from ....core.protocol.errors import RhumblineError, UnavailableError
from ....core.protocol.start import EARLIEST

NAMESPACE, LOCAL_NAMESPACE = "default", "local"
STREAM = "events"
_APPEND_PAUSE_S = {NAMESPACE: 0.05, LOCAL_NAMESPACE: 0.1}
"""Different, so that the lines of the writers can be told apart in the picture."""

_QUIET_S = 2.0
"""Time without a record after which everything was read, if the end is not known."""

_RECORD_S_MAX = 30.0
"""Time without a record after which a reader gives up before an end that is known."""

_RETRY_S = 0.5


def _tell(**fields: Any) -> None:  # noqa: ANN401 - the values of JSON
    print(json.dumps({"at": round(time.monotonic(), 3), **fields}), flush=True)


async def _write(client: Client, pause_s: float) -> None:
    number = 0
    while True:
        try:
            async with client.writer(STREAM) as writer:
                while True:
                    number = await _append(writer, number)
                    await asyncio.sleep(pause_s)
        except RhumblineError as error:
            _tell(error=str(error))
            await asyncio.sleep(_RETRY_S)


async def _append(writer: StreamWriter, number: int) -> int:
    result = await writer.append(b"%09d" % number)
    _tell(acked=number, regions=list(result.regions))
    return number + 1


async def _read(client: Client, began: float) -> None:
    """Read from the start to the present end, or until nothing comes if that is not known."""
    end: Dlsn | None = None
    with suppress(UnavailableError):
        end = await client.namespace().end(STREAM)
    first: int | None = None
    last, count, first_s = -1, 0, 0.0
    async with client.reader(STREAM, EARLIEST) as reader:
        while (payloads := await _next_payloads(reader, end)) is not None:
            if first is None:
                first, first_s = payloads[0], time.monotonic() - began
            last, count = payloads[-1], count + len(payloads)
    description = await client.namespace().describe(STREAM)
    _tell(
        first=first,
        last=last,
        count=count,
        first_record_s=round(first_s, 3),
        age_ms=description.metadata_age_ms,
        segments=len(description.segments),
    )


async def _next_payloads(reader: StreamReader, end: Dlsn | None) -> list[int] | None:
    try:
        async with asyncio.timeout(_QUIET_S if end is None else _RECORD_S_MAX):
            batch = await reader.next_batch(until=end)
    except (TimeoutError, RhumblineError):
        return None
    return None if batch is None else [int(record.payload) for record in batch.records()]


async def _follow(client: Client) -> None:
    position: Dlsn | None = None
    while True:
        try:
            async with client.reader(STREAM, position or EARLIEST) as reader:
                async for batch in reader.batches():
                    numbers = [int(record.payload) for record in batch.records()]
                    _tell(got=[numbers[0], numbers[-1]], count=len(numbers))
                    position = reader.position
        except RhumblineError as error:
            _tell(error=f"{type(error).__name__}: {error}")
            await asyncio.sleep(_RETRY_S)


async def main(role: str, uri: str, region: str, namespace: str, owner: str, store: str) -> None:
    """Open a client and do what the role says."""
    began = time.monotonic()
    async with Client(
        uri, namespace=namespace, region=region, regional_metadata={owner: store}
    ) as client:
        _tell(ready=role, opened_s=round(time.monotonic() - began, 3))
        if role == "write":
            await _write(client, _APPEND_PAUSE_S[namespace])
        elif role == "follow":
            await _follow(client)
        else:
            await _read(client, began)


if __name__ == "__main__":
    run(main(*sys.argv[1:]))
