"""Tests of several real processes on one SQLite file, some of which are killed during writes."""

import asyncio
import sys
from pathlib import Path

from rhumbline.backends.open_store import open_store

ADDER = """
import asyncio, sys
from rhumbline.backends.open_store import open_store
from rhumbline.core.protocol.errors import BadVersionError

async def main(uri, times):
    store = await open_store(uri)
    done = 0
    while done < times:
        value = await store.get("/counter")
        try:
            await store.put("/counter", b"%d" % (int(value.data) + 1), expect=value.version)
        except BadVersionError:
            continue
        done += 1
        print(done, flush=True)
    await store.close()

asyncio.run(main(sys.argv[1], int(sys.argv[2])))
"""


async def start(uri: str, times: int) -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(
        sys.executable, "-c", ADDER, uri, str(times), stdout=asyncio.subprocess.PIPE
    )


async def test_processes_of_one_host_lose_no_increment(tmp_path: Path) -> None:
    uri = f"sqlite://{tmp_path}/m.db"
    store = await open_store(uri)
    await store.create("/counter", b"0")
    processes = [await start(uri, 40) for _ in range(3)]
    for process in processes:
        await asyncio.wait_for(process.communicate(), 60)
        assert process.returncode == 0
    assert (await store.get("/counter")).data == b"120"
    await store.close()


async def test_a_new_file_may_be_opened_by_many_at_once(tmp_path: Path) -> None:
    uri = f"sqlite://{tmp_path}/m.db"
    stores = await asyncio.gather(*[open_store(uri) for _ in range(8)])
    for number, store in enumerate(stores):
        await store.create(f"/n/{number}")
    assert len(await stores[0].children("/n")) == len(stores)
    for store in stores:
        await store.close()


async def test_acknowledged_writes_of_a_killed_process_are_durable(tmp_path: Path) -> None:
    uri = f"sqlite://{tmp_path}/m.db"
    store = await open_store(uri)
    await store.create("/counter", b"0")
    acknowledged = 0
    for _ in range(3):
        process = await start(uri, 1_000_000)
        assert process.stdout is not None
        for _ in range(20):
            await asyncio.wait_for(process.stdout.readline(), 30)
        process.kill()
        acknowledged += 20 + len((await process.stdout.read()).splitlines())
        await process.wait()
        counted = int((await store.get("/counter")).data)
        assert acknowledged <= counted <= acknowledged + 2
        acknowledged = counted
    await store.close()
