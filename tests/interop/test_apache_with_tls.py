"""START_TLS with Apache's parts: its Java client on our bookies, and our client on its bookies."""

import asyncio
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest

from rhumbline.chaos.server_processes import BookieProcess
from rhumbline.client.connect import Client, connect
from rhumbline.core.protocol.errors import RhumblineError
from rhumbline.core.protocol.quorum import Quorum
from rhumbline.security.principal import Role
from rhumbline.security.settings import TlsSettings
from rhumbline.tests.support.security.certificates import authority, settings_for
from rhumbline.tests.support.servers.apache import (
    ApacheBookie,
    bookkeeper_jars,
    initialise,
    run_java,
)
from rhumbline.tests.support.servers.metadata_servers import ZooKeeper, started

pytestmark = [
    pytest.mark.needs_server("apache-bookkeeper"),
    pytest.mark.timeout(300),
    pytest.mark.long,
]
PASSWORD = b"secret"
_RHUMBLINE = str(Path(sys.executable).with_name("rhumbline"))


def rhumbline(uri: str, *arguments: str) -> None:
    command = [_RHUMBLINE, *arguments, "-u", uri]
    done = subprocess.run(command, timeout=60, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def payload(entry_id: int) -> bytes:
    """Return the payload that Interop.java expects in entry ``entry_id``."""
    return f"entry {entry_id} {'x' * (entry_id % 200)}".encode()


@pytest.mark.parametrize("mode", ["v3", "v2"])
def test_the_java_client_upgrades_connections_to_our_bookies(tmp_path: Path, mode: str) -> None:
    started(bookkeeper_jars)
    tls = tmp_path / "tls"
    made = authority(tls)
    made.issue("client", [Role.CLIENT], days=1)
    server = settings_for(made, "server", Role.BOOKIE)
    options = [f"tls.{name}={getattr(server, name)}" for name in ("certificate", "key", "ca")]
    zookeeper = started(ZooKeeper)
    zookeeper.start()
    uri = f"zk://{zookeeper.address}"
    bookies = []
    try:
        rhumbline(uri, "cluster", "init")
        for number in range(3):
            name, directory = f"b{number}", tmp_path / f"b{number}"
            directory.mkdir()
            place = ("--name", name, "--region", "oslo")
            rhumbline(uri, "bookie", "format", str(directory), *place)
            settings = [word for option in options for word in ("--set", option)]
            bookies.append(BookieProcess(directory, uri, "--region", "oslo", *settings))
            bookies[-1].start()
        printed = run_java(
            zookeeper.address, mode, "write-and-read:500", "fence-a-writer", "delete", tls=tls
        )
        assert printed["write-and-read:500"].endswith("entries=500")
        assert printed["fence-a-writer"] == "fenced=-101"
    finally:
        for bookie in bookies:
            bookie.kill()
        zookeeper.remove()


def test_our_client_upgrades_connections_to_apaches_bookies(tmp_path: Path) -> None:
    started(bookkeeper_jars)
    made = authority(tmp_path / "tls")
    tls = settings_for(made, "client")
    settings_for(made, "server", Role.BOOKIE)
    zookeeper = started(ZooKeeper)
    zookeeper.start()
    bookie: ApacheBookie | None = None
    try:
        initialise(zookeeper.address)
        bookie = ApacheBookie(zookeeper.address, tmp_path / "tls")
        bookie.launch()
        bookie.wait_ready()
        asyncio.run(_write_and_read(f"zk://{zookeeper.address}", tls))
    finally:
        if bookie is not None:
            bookie.remove()
        zookeeper.remove()


def _set_error(
    done: asyncio.Future[RhumblineError | None], _: int, error: RhumblineError | None, __: int
) -> None:
    done.set_result(error)


async def _write_and_read(uri: str, tls: TlsSettings) -> None:
    async with asyncio.timeout(120), connect(uri, tls=tls) as client:
        assert isinstance(client, Client)
        while not await client.directory.writable():  # noqa: ASYNC110 - in another process
            await asyncio.sleep(0.05)
        writer = await client.ledgers.create(Quorum(1, 1, 1), password=PASSWORD)
        loop = asyncio.get_running_loop()
        for entry_id in range(20):
            done: asyncio.Future[RhumblineError | None] = loop.create_future()
            writer.add(payload(entry_id), partial(_set_error, done))
            assert await done is None
        await writer.close()
        reader = await client.ledgers.open(writer.ledger_id, PASSWORD)
        found = await reader.read(0, 19)
        assert [bytes(entry.payload) for entry in found] == [payload(n) for n in range(20)]
        await reader.aclose()
