"""The private parts of kazoo that our client overrides or calls are still there and in use."""

import asyncio
import inspect
import socket
import struct
import threading
import tomllib
from pathlib import Path

import pytest
from kazoo.client import KazooClient
from kazoo.protocol.connection import ConnectionHandler
from kazoo.protocol.serialization import write_string

from rhumbline.backends.zookeeper.client import (
    ZooKeeperAccess,
    ZooKeeperConnection,
    _Client,
    _Events,
    _Reply,
)
from rhumbline.core.protocol.errors import SessionLostError

_ROOT = Path(__file__).resolve().parents[4]
_CREATED, _DELETED, _CHANGED, _CHILD = 1, 2, 3, 4


def _event(kind: int, path: str) -> bytes:
    return struct.pack(">ii", kind, 3) + bytes(write_string(path))


def _connect_request_of(client: KazooClient) -> bytes:
    """Returns the first frame that a client sends to a server."""
    frames: list[bytes] = []
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(10)

        def accept() -> None:
            connection, _ = server.accept()
            with connection:
                connection.settimeout(10)
                (length,) = struct.unpack(">i", connection.recv(4, socket.MSG_WAITALL))
                frames.append(connection.recv(length, socket.MSG_WAITALL))

        thread = threading.Thread(target=accept)
        thread.start()
        client.set_hosts(f"127.0.0.1:{server.getsockname()[1]}")
        client.start_async()
        thread.join(20)
        client.stop()
        client.close()
    return frames[0]


def test_the_version_of_kazoo_is_bounded() -> None:
    project = tomllib.loads((_ROOT / "pyproject.toml").read_text())["project"]
    assert project["optional-dependencies"]["zookeeper"] == ["kazoo>=2.11,<2.12"]


def test_kazoo_keeps_watches_in_a_table_that_it_creates_by_reset_watchers() -> None:
    client = _Client(lambda _: None)
    first = client._data_watchers
    assert isinstance(first, _Events)
    client._reset_watchers()
    assert isinstance(client._data_watchers, _Events)
    assert client._data_watchers is not first


def test_each_event_of_a_node_reaches_the_function_once() -> None:
    seen: list[str] = []
    client = _Client(seen.append)
    client._stopped.clear()
    handler: ConnectionHandler = client._connection
    for kind, path in ((_CREATED, "/a"), (_CHANGED, "/a"), (_DELETED, "/a/b"), (_CHILD, "/a")):
        handler._read_watch_event(_event(kind, path), 0)
    assert seen == ["/a", "/a", "/a/b"]


@pytest.mark.parametrize(("cls", "sent"), [(KazooClient, 7), (_Client, 0)])
def test_only_our_client_connects_without_its_last_transaction(
    cls: type[KazooClient], sent: int
) -> None:
    client = KazooClient() if cls is KazooClient else _Client(lambda _: None)
    client.last_zxid = 7
    protocol_version, last_zxid = struct.unpack_from(">iq", _connect_request_of(client))
    assert (protocol_version, last_zxid) == (0, sent)


async def test_a_call_takes_a_request_and_an_object_for_its_result() -> None:
    assert list(inspect.signature(KazooClient._call).parameters) == [
        "self",
        "request",
        "async_object",
    ]
    reply = _Reply(asyncio.get_running_loop())
    assert _Client(lambda _: None)._call(object(), reply) is False  # it was never started
    async with asyncio.timeout(10):
        with pytest.raises(SessionLostError, match="ConnectionClosedError"):
            await reply.future


async def test_connection_whose_closing_is_cancelled_stops_all_the_same() -> None:
    """It reconnected later, and kept its session with the ephemeral nodes."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]  # nothing answers there
        connection = ZooKeeperConnection(ZooKeeperAccess(f"127.0.0.1:{port}"), 3_000)
        await connection.start()
        closing = asyncio.create_task(connection.aclose(reconnect_ms_max=60_000))
        await asyncio.sleep(0.05)
        closing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await closing
    assert connection._client._stopped.is_set()
