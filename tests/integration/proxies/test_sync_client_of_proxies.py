"""The blocking client through two proxy processes, while the proxy of a member is killed."""

import threading
import time
from collections import Counter
from pathlib import Path

import pytest

from rhumbline import StreamPolicy, sync
from rhumbline.client.sync_api.sync_topics import SyncTopics
from rhumbline.core.protocol.errors import NoSuchNamespaceError, NotEmptyError
from rhumbline.tests.support.processes.process_cluster import ProcessCluster
from rhumbline.tests.support.processes.proxy_processes import ClusterProxy
from rhumbline.topics import GroupConfig
from rhumbline.typed import StrCodec, TypedStream

PRODUCER = b"anne".ljust(16, b".")
COUNT = 60
TEXTS = TypedStream("texts", StrCodec())
EMPTY_S_MAX = 60.0


def delete_when_empty(topics: SyncTopics, name: str) -> None:
    """Delete a topic once the session that the killed proxy kept for a member has expired."""
    deadline = time.monotonic() + EMPTY_S_MAX
    while True:
        try:
            topics.delete(name)
        except NotEmptyError:
            assert time.monotonic() < deadline
            time.sleep(0.2)
        else:
            return


def test_group_survives_its_killed_proxy(tmp_path: Path) -> None:
    """``sync.connect("grpc://...")`` said "unknown scheme", and thin clients had no topics."""
    with (
        ProcessCluster(tmp_path / "c", ["a"] * 3) as cluster,
        ClusterProxy(cluster, "write-proxy", "one", "--with-read") as one,
        ClusterProxy(cluster, "write-proxy", "two", "--with-read") as two,
        sync.connect(f"grpc://{one.address},{two.address}") as client,
    ):
        namespace = client.namespace()
        namespace.create_stream("s", StreamPolicy())
        with client.writer("s") as writer:
            first = writer.append_numbered(PRODUCER, 0, [b"0", b"1"])
            assert writer.append_numbered(PRODUCER, 0, [b"0", b"1"]).first == first.first
            writer.append(b"2", txid=None)
            writer.room()
            writer.flush()
        assert namespace.end("s") > first.last
        namespace.create_stream("texts", StreamPolicy())
        with TEXTS.sync_writer(client) as typed:
            typed.append("one")
        with TEXTS.sync_reader(client) as texts:
            assert next(iter(texts)).value == "one"
        held = namespace.subscriptions.create("s", "billing", first.first)
        assert namespace.subscriptions.commit(held, "s", first.last).position == first.last
        assert [listed.name for listed in client.namespaces.all()] == ["default"]
        client.namespaces.create("more", StreamPolicy())
        assert client.namespace("more").streams() == []
        client.namespaces.delete("more")
        with pytest.raises(NoSuchNamespaceError):
            client.namespaces.delete("more")
        assert client.statistics()["discovery"]

        topics = client.topics()
        topics.create("orders", 4)
        seen: Counter[bytes] = Counter()
        config = GroupConfig(session_ttl_ms=3_000, retry_ms=50)
        with topics.join("orders", "billing", config=config) as member:

            def work() -> None:
                while len(seen) < COUNT:
                    delivery = member.next_delivery()
                    assert delivery is not None
                    seen.update(delivery.batch.payloads())
                    member.commit(delivery)

            worker = threading.Thread(target=work)
            worker.start()
            with topics.writer("orders") as topic_writer:
                for number in range(COUNT // 2):
                    topic_writer.append(b"%d" % number, key=b"%d" % (number % 9))
            while len(seen) < COUNT // 2:
                threading.Event().wait(0.05)
            one.kill()
            with topics.writer("orders") as topic_writer:
                for number in range(COUNT // 2, COUNT):
                    topic_writer.append(b"%d" % number, key=b"%d" % (number % 9))
            worker.join(60)
            assert not worker.is_alive()
        assert set(seen) == {b"%d" % number for number in range(COUNT)}
        delete_when_empty(topics, "orders")
