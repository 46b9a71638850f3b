"""The synchronous client against three bookie processes."""

import threading
from pathlib import Path

import pytest

from rhumbline import sync
from rhumbline.core.log.policy import StreamPolicy
from rhumbline.core.protocol.errors import (
    ClosedError,
    NoSuchStreamError,
    StreamLostError,
    WrongClusterError,
)
from rhumbline.tests.support.processes.process_cluster import ProcessCluster

LINES = [b"line %d" % n for n in range(5000)]


def test_write_read_tail_and_end(tmp_path: Path) -> None:
    with ProcessCluster(tmp_path / "c", ["local"] * 3) as cluster:
        with sync.connect(cluster.metadata, region="local") as client:
            client.create_stream("s")
            with client.writer("s") as writer:
                first = writer.append(b"first", txid=7)
                many = writer.append_many(LINES)
            assert (first.regions, many.record_count) == (("local",), len(LINES))
            with client.reader("s") as reader:
                records = iter(reader)
                assert next(records).payload == b"first"
                assert first.dlsn < reader.position <= many.first
                second = next(records)
                assert (second.dlsn, second.payload) == (many.first, LINES[0])
                stored = reader.position
            with client.reader("s", stored) as reader:
                found: list[bytes] = []
                while len(found) < len(LINES) - 1:
                    batch = reader.next_batch(timeout_s=10)
                    assert batch is not None
                    found += batch.payloads()
                assert found == LINES[1:]
                with pytest.raises(TimeoutError):
                    reader.next_batch(timeout_s=0.05)
                tailed: list[bytes] = []
                tail = threading.Thread(target=lambda: tailed.extend(r.payload for r in reader))
                tail.start()
                with client.writer("s") as writer:
                    writer.append(b"last")
                    writer.end_stream()
                tail.join(60)
                assert tailed == [b"last"]
            segments = client.call(lambda c: c.namespace().describe("s")).segments
            assert [segment.lssn for segment in segments] == [1, 2]
            with pytest.raises(NoSuchStreamError), client.writer("other"):
                pass
            client.create_stream("t", StreamPolicy())
            with pytest.raises(StreamLostError), client.writer("t") as fenced:
                with client.writer("t") as other:
                    other.append(b"a")
                fenced.append(b"b")
        with pytest.raises(ClosedError):
            client.create_stream("u")
        with pytest.raises(ClosedError):
            next(iter(reader))
    assert not [t for t in threading.enumerate() if t.name == "rhumbline"]


def test_failed_open_leaves_no_thread(tmp_path: Path) -> None:
    with pytest.raises(WrongClusterError), sync.connect(f"sqlite://{tmp_path}/empty.db"):
        pass
    assert not [t for t in threading.enumerate() if t.name == "rhumbline"]
