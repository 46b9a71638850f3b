"""The attacks of a stranger on a running cluster: refused, audited, and nothing is disturbed.

A stranger reaches the ports and has no certificate. Without TLS a bookie cannot tell a stranger
from a client; floods must not stop its service there, either.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from random import Random
from typing import NamedTuple

import pytest

from rhumbline.cli.servers.local_cluster import HOST, LocalCluster
from rhumbline.client.connect import connect
from rhumbline.core.log.namespace import create_namespace
from rhumbline.core.log.policy import StreamPolicy
from rhumbline.core.protocol.errors import RhumblineError
from rhumbline.core.protocol.quorum import Quorum
from rhumbline.core.wire import v2
from rhumbline.core.wire.entry import master_key
from rhumbline.proxies.rpc import methods
from rhumbline.proxies.rpc import rhumbline_pb2 as pb
from rhumbline.proxies.rpc.grpc_calls import GrpcTransport
from rhumbline.security.audit import AuditResult
from rhumbline.security.settings import TlsSettings
from rhumbline.server.status_server import fetch_status
from rhumbline.tests.support.security.attacks import Recorded, append_some, ask
from rhumbline.tests.support.security.secured_cluster import NAMESPACE, REGION, STREAM, secured
from rhumbline.tls.credentials import TlsCredentials
from rhumbline.tls.protection import Protection

LEDGERS = 60
FRAMES_PER_CONNECTION = 500


class Target(NamedTuple):
    """What is attacked, and how a client with rights reaches it."""

    metadata_uri: str
    bookies: list[int]
    """Ports of the bookies."""
    status: list[tuple[str, int]]
    tls: TlsSettings | None
    proxy: str = ""


@asynccontextmanager
async def target_of(mode: str, directory: Path, sink: Recorded) -> AsyncIterator[Target]:
    """Run a cluster without TLS or with it."""
    async with AsyncExitStack() as closing:
        if mode == "tls":
            made = await closing.enter_async_context(secured(directory, audit=sink))
            cluster, tls, proxy = made.cluster, made.client_tls, made.proxy.address
        else:
            cluster = LocalCluster(
                directory,
                [REGION],
                bookies_per_region=3,
                round_trips_ms={},
                serves_status=True,
                protection=Protection(audit=sink),
            )
            await closing.enter_async_context(cluster)
            client = cluster.client(REGION, namespace=NAMESPACE)
            await closing.enter_async_context(client)
            policy = StreamPolicy(Quorum(3, 3, 2))
            await create_namespace(client.store, client.runtime, NAMESPACE, policy)
            await client.namespace().create_stream(STREAM)
            tls, proxy = None, ""
        ports = [local.bookie.port for local in cluster.bookies if local.bookie is not None]
        addresses = [local.status_address.rpartition(":") for local in cluster.bookies]
        status = [(host, int(port)) for host, _, port in addresses]
        yield Target(cluster.metadata_uri, ports, status, tls, proxy)


async def test_with_tls_a_stranger_reads_fences_and_deletes_nothing(tmp_path: Path) -> None:
    sink = Recorded()
    async with (
        asyncio.timeout(90),
        target_of("tls", tmp_path, sink) as target,
        connect(target.metadata_uri, region=REGION, tls=target.tls) as client,
        client.writer(STREAM) as writer,
    ):
        await append_some(writer, 20)
        key = master_key(b"")
        attacks = [v2.encode_read(ledger, 0, v2.FLAG_FENCE, key) for ledger in range(LEDGERS)]
        attacks += [v2.encode_read(ledger, entry) for ledger in range(LEDGERS) for entry in (0, -1)]
        answers = [await ask(target.bookies[0], attack) for attack in attacks]
        assert not any(b"planted" in answer.data for answer in answers)
        request = pb.DeleteStreamRequest(namespace=NAMESPACE, stream=STREAM)
        for credentials in (None, TlsCredentials(TlsSettings(ca=target.tls.ca))):  # type: ignore[union-attr]
            calls = GrpcTransport(credentials)
            with pytest.raises(RhumblineError):
                await calls.call_unary(target.proxy, methods.DELETE_STREAM, request, 5.0)
            await calls.aclose()
        await append_some(writer, 20)  # fails if the writer was fenced
        # Only these connections are counted, as clients of other tests may still call old ports.
        refused = Counter((answer.sender, "tls-required") for answer in answers)
        assert {found: sink.errors_of_peers[found] for found in refused} == refused
        assert not any(result == AuditResult.DONE for _, result, _ in sink.counts)


@pytest.mark.parametrize("mode", ["off", "tls"])
@pytest.mark.parametrize(
    "connections", [200, pytest.param(2_000, marks=pytest.mark.long)], ids=["short", "long"]
)
async def test_floods_do_not_stop_the_service_of_others(
    mode: str, connections: int, tmp_path: Path
) -> None:
    sink, random = Recorded(), Random(3)
    async with (
        asyncio.timeout(240),
        target_of(mode, tmp_path, sink) as target,
        connect(target.metadata_uri, region=REGION, tls=target.tls) as client,
        client.writer(STREAM) as writer,
        AsyncExitStack() as closing,
    ):
        before_ms = await append_some(writer, 50)
        silent = [(HOST, port) for port in target.bookies] + target.status
        for number in range(connections):  # idle ones, and handshakes that never go on
            _, held = await asyncio.open_connection(*silent[number % len(silent)])
            closing.callback(held.close)
            if number % 2:
                held.write(b"\x16\x03\x01")
        idle_ms = await append_some(writer, 50)
        slots = asyncio.Semaphore(20)

        async def send_garbage(port: int) -> None:
            frames = b"".join(
                len(body).to_bytes(4) + body
                for body in (random.randbytes(20) for _ in range(FRAMES_PER_CONNECTION))
            )
            async with slots:
                await ask(port, frames)

        async with asyncio.TaskGroup() as group:
            for number in range(connections):
                group.create_task(send_garbage(target.bookies[number % len(target.bookies)]))
            flooded_ms = await append_some(writer, 50)
        for address in target.status:
            credentials = None if target.tls is None else TlsCredentials(target.tls)
            ready = await fetch_status(
                *address, "/readyz", timeout_ms=5_000, credentials=credentials
            )
            assert ready == {"ready": True}
    refused = sum(
        count for (_, result, _), count in sink.counts.items() if result == AuditResult.REFUSED
    )
    assert refused >= connections
    frames = connections * FRAMES_PER_CONNECTION
    print(
        f"{mode}: {frames} malformed frames, {connections} idle connections: median append "
        f"{before_ms:.2f} ms before, {idle_ms:.2f} ms with idle, {flooded_ms:.2f} ms in the flood"
    )
