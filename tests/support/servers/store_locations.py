"""Metadata stores for tests, each with a way to make it unavailable.

FoundationDB is used if it is installed or RHUMBLINE_FDB_HOME names its programs (see
``fdb_servers``). Otherwise it is used if RHUMBLINE_FDB_CLUSTER_FILE names a cluster, and can be
made unavailable if RHUMBLINE_FDB_SERVER_PID is the id of its only server process, for SIGSTOP.
"""

import os
import signal
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol
from uuid import uuid4

import pytest

from rhumbline.tests.support.fakes.fdb_bindings import fake_fdb
from rhumbline.tests.support.fakes.fdb_model import ModelCluster
from rhumbline.tests.support.servers import fdb_servers, installs, metadata_servers
from rhumbline.tests.support.servers.fdb_servers import FdbCluster
from rhumbline.tests.support.servers.metadata_servers import Etcd, ZooKeeper

FDB_CLUSTER_FILE = "RHUMBLINE_FDB_CLUSTER_FILE"
FDB_SERVER_PID = "RHUMBLINE_FDB_SERVER_PID"

ZOOKEEPER = pytest.mark.needs_server("zookeeper")
ETCD = pytest.mark.needs_server("etcd")
TOXIPROXY = pytest.mark.needs_server("toxiproxy")


class StoreLocation(Protocol):
    """The location of a store that can be made unavailable."""

    uri: str
    name: str
    """Kind and version of the store and its kind of outage, for reports."""

    def make_unavailable(self) -> None: ...

    def make_available(self) -> None: ...


class SqliteLocation:
    """A SQLite file. In an outage another connection holds the exclusive lock."""

    def __init__(self, path: Path) -> None:
        self.uri = f"sqlite://{path}/metadata.db"
        self.name = f"SQLite {sqlite3.sqlite_version}, locked"
        self._path = path / "metadata.db"
        self._holder: sqlite3.Connection | None = None

    def make_unavailable(self) -> None:
        self._holder = sqlite3.connect(self._path, isolation_level=None)
        self._holder.execute("BEGIN EXCLUSIVE")

    def make_available(self) -> None:
        assert self._holder is not None
        self._holder.close()


class ProxiedServer:
    """A shared server behind a proxy. In an outage connections are closed and refused."""

    def __init__(self, scheme: str, server: ZooKeeper | Etcd) -> None:
        self._proxy = metadata_servers.toxiproxy().proxy(server.address)
        self.uri = f"{scheme}://{self._proxy.address}/{unique_name()}"
        self.name = f"{server.name} {server.version()}, cut off"

    def make_unavailable(self) -> None:
        self._proxy.cut()

    def make_available(self) -> None:
        self._proxy.heal()

    def remove(self) -> None:
        self._proxy.remove()


class FreezableServer:
    """A server for one test. In an outage SIGSTOP freezes it; connections stay open."""

    def __init__(self, scheme: str, server: ZooKeeper | Etcd) -> None:
        self._server = server
        server.start()
        self.uri = f"{scheme}://{server.address}/{unique_name()}"
        self.name = f"{server.name} {server.version()}, SIGSTOP"

    def make_unavailable(self) -> None:
        self._server.pause()

    def make_available(self) -> None:
        self._server.resume()

    def remove(self) -> None:
        self._server.remove()


class FdbLocation:
    """A new directory in a FoundationDB cluster of one process.

    The cluster is one of its own, whose process is killed or frozen in an outage. If only a cluster
    file is known, it is a directory in that cluster, whose process can be frozen.
    """

    def __init__(self, *, is_frozen: bool) -> None:
        self._is_frozen = is_frozen
        self._is_away = False
        self._cluster: FdbCluster | None = None
        try:
            self._cluster = FdbCluster()
        except installs.NotInstalledError:
            self.uri = fdb_uri(unique_name())
            self.name = "FoundationDB"
        else:
            self._cluster.start()
            self.uri = self._cluster.uri(unique_name())
            self.name = f"FoundationDB, {'SIGSTOP' if is_frozen else 'killed'}"

    def make_unavailable(self) -> None:
        if self._cluster is None:
            os.kill(self._process_id(), signal.SIGSTOP)
        elif self._is_frozen:
            self._cluster.servers[0].pause()
        else:
            self._cluster.servers[0].kill()
        self._is_away = True

    def make_available(self) -> None:
        if not self._is_away:
            return
        if self._cluster is None:
            os.kill(self._process_id(), signal.SIGCONT)
        elif self._is_frozen:
            self._cluster.servers[0].resume()
        else:
            self._cluster.servers[0].launch()
        self._is_away = False

    def remove(self) -> None:
        if self._cluster is not None:
            self._cluster.remove()

    def _process_id(self) -> int:
        number = os.environ.get(FDB_SERVER_PID)
        if not number:
            pytest.skip(f"{FDB_SERVER_PID} does not name a FoundationDB server that may be stopped")
        return int(number)


class FdbModelLocation:
    """The model of FoundationDB's transactions. In an outage its calls time out."""

    uri = "fdb:///model.cluster?dir=story"
    name = "fdb model, which is not FoundationDB"

    def __init__(self, cluster: ModelCluster) -> None:
        self._cluster = cluster

    def make_unavailable(self) -> None:
        self._cluster.is_stopped = True

    def make_available(self) -> None:
        self._cluster.is_stopped = False


def fdb_uri(directory: str) -> str:
    """Return the URI of a directory in a real cluster that is not disturbed; or skip the test.

    FoundationDB cannot be installed on demand, since no package registry has it.
    """
    try:
        return fdb_servers.shared_cluster().uri(directory)
    except installs.NotInstalledError as reason:
        file = os.environ.get(FDB_CLUSTER_FILE)
        if not file:
            pytest.skip(str(reason))
    return f"fdb://{Path(file).resolve()}?dir=rhumbline-tests/{directory}"


def unique_name() -> str:
    """Return a name for a path in a server that no other test uses."""
    return f"t-{uuid4().hex[:8]}"


KINDS = [
    "sqlite",
    pytest.param("zookeeper", marks=[ZOOKEEPER, TOXIPROXY]),
    pytest.param("etcd", marks=[ETCD, TOXIPROXY]),
    "fdb model",
    "fdb",
]
FREEZABLE_KINDS = [
    pytest.param("zookeeper frozen", marks=[ZOOKEEPER, pytest.mark.long]),
    pytest.param("etcd frozen", marks=[ETCD, pytest.mark.long]),
    "fdb frozen",
]


@contextmanager
def store_location_of(kind: str, path: Path) -> Iterator[StoreLocation]:
    """Provide a location of one of ``KINDS`` or ``FREEZABLE_KINDS``; ``path`` is for files."""
    if kind == "sqlite":
        yield SqliteLocation(path)
    elif kind == "fdb model":
        with fake_fdb() as bindings:
            yield FdbModelLocation(bindings.cluster)
    else:
        location = _server_location(kind)
        try:
            yield location
        finally:
            location.remove()


def _server_location(kind: str) -> ProxiedServer | FreezableServer | FdbLocation:
    try:
        match kind:
            case "zookeeper":
                return ProxiedServer("zk", metadata_servers.zookeeper())
            case "etcd":
                return ProxiedServer("etcd", metadata_servers.etcd())
            case "zookeeper frozen":
                return FreezableServer("zk", ZooKeeper())
            case "etcd frozen":
                return FreezableServer("etcd", Etcd())
            case "fdb" | "fdb frozen":
                return FdbLocation(is_frozen=kind == "fdb frozen")
    except installs.NotInstalledError as reason:
        pytest.skip(str(reason))
    raise AssertionError(f"unknown kind of store {kind!r}")
