"""The same attacks on a cluster in each mode of protection: refused, audited, nothing disturbed.

Without TLS, which servers allow on loopback only, everyone who reaches a port is served: the table
shows that too. The strongest attacker that a mode must refuse has a certificate without a grant.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from rhumbline.access.token_source import token_source
from rhumbline.cli.servers.local_cluster import LocalCluster
from rhumbline.client.connect import Client, connect
from rhumbline.core.ledger.write.ledger_writer import LedgerWriter
from rhumbline.core.log.api.log_writer import LogWriter
from rhumbline.core.log.namespace import create_namespace
from rhumbline.core.log.policy import StreamPolicy
from rhumbline.core.protocol.errors import RhumblineError
from rhumbline.core.protocol.quorum import Quorum
from rhumbline.core.wire import v2
from rhumbline.core.wire.entry import master_key
from rhumbline.proxies.config import ProxyConfig
from rhumbline.proxies.rpc import methods
from rhumbline.proxies.rpc import rhumbline_pb2 as pb
from rhumbline.proxies.rpc.grpc_calls import GrpcTransport
from rhumbline.security.audit import AuditResult
from rhumbline.security.principal import Role
from rhumbline.security.settings import SecuritySettings, TlsSettings
from rhumbline.security.token_claims import static_token_line
from rhumbline.server.proxy_host import running_proxy
from rhumbline.server.status_server import fetch_status
from rhumbline.tests.support.security.attacks import HOST, Recorded, append_some
from rhumbline.tests.support.security.certificates import authority, settings_for
from rhumbline.tests.support.security.secured_cluster import (
    NAMESPACE,
    REGION,
    SERVER_ROLES,
    STREAM,
)
from rhumbline.tests.support.security.wire_attacker import WireAttacker
from rhumbline.tls.credentials import TlsCredentials, credentials_of
from rhumbline.tls.protection import Protection

MODES = ("plain", "TLS", "mTLS", "TLS and token", "mTLS and grants")
LEDGERS = 20
IDLE = 300
SERVED, REFUSED = "served", "refused"
OPEN_TO_ALL = ("plain",)
"""Modes in which the attacks succeed."""


@dataclass
class Attacked:
    """A running cluster, and the means of the attacker and of its victim."""

    cluster: LocalCluster
    proxy: str
    proxy_status: tuple[str, int]
    victim_tls: TlsSettings | None
    attacker_tls: TlsSettings | None
    attacker_token: str = ""
    sink: Recorded = field(default_factory=Recorded)

    @property
    def bookie_ports(self) -> list[int]:
        """Return the ports of the bookies."""
        return [one.bookie.port for one in self.cluster.bookies if one.bookie is not None]


@asynccontextmanager
async def attacked(mode: str, directory: Path) -> AsyncIterator[Attacked]:
    """Run a cluster and a proxy in one of the modes."""
    sink, issuer = Recorded(), authority(directory / "tls")
    ca = str(issuer.certificate_file)
    security, victim, attacker, token = SecuritySettings(), None, None, ""
    serving: dict[str, bool] = {}
    if mode != "plain":
        victim = settings_for(issuer, "victim", Role.ADMIN)
        stranger = authority(directory / "others")
        foreign = settings_for(stranger, "stranger", Role.ADMIN)
        attacker = TlsSettings(ca=ca, server_name="rhumbline.internal")
        if mode == "mTLS":  # with a certificate, but of an authority that nobody trusts here
            attacker = TlsSettings(certificate=foreign.certificate, key=foreign.key, ca=ca,
                                   server_name="rhumbline.internal")  # fmt: skip
    if mode in ("TLS", "TLS and token"):
        serving["proxy_client_certificates"] = False
    if mode == "TLS and token":
        tokens, own = directory / "tokens", directory / "own-token"
        own.write_text("of-the-proxy")
        tokens.write_text(static_token_line("proxy", "of-the-proxy", [Role.PROXY]))
        security = SecuritySettings(static_tokens=str(tokens), token_file=str(own))
        token = "guessed"
    if mode == "mTLS and grants":
        security = SecuritySettings(access_control=True, bookie_clients="internal")
        attacker = settings_for(issuer, "insider", Role.CLIENT)
    servers = None
    if mode != "plain":
        servers = TlsCredentials(settings_for(issuer, "server", *SERVER_ROLES, **serving))
    protection = Protection(servers, security, sink)
    (directory / "cluster").mkdir()
    cluster = LocalCluster(
        directory / "cluster", [REGION], bookies_per_region=3, round_trips_ms={},
        serves_status=True, protection=protection,
    )  # fmt: skip
    async with AsyncExitStack() as closing:
        await closing.enter_async_context(cluster)
        client = await closing.enter_async_context(cluster.client(REGION, namespace=NAMESPACE))
        assert isinstance(client, Client)
        policy = StreamPolicy(Quorum(3, 3, 2))
        await create_namespace(client.store, client.runtime, NAMESPACE, policy)
        await client.namespace().create_stream(STREAM)
        proxy = await closing.enter_async_context(
            running_proxy(
                client, ProxyConfig(), roles=("write", "read"), host=HOST, port=0, status_port=0,
                protection=protection,
            )
        )  # fmt: skip
        host, _, port = proxy.status_address.rpartition(":")
        yield Attacked(cluster, proxy.address, (host, int(port)), victim, attacker, token, sink)


async def call_proxy(target: Attacked, method: methods.Method, request: object) -> str:
    """Make a call to the proxy with the means of the attacker."""
    credentials = credentials_of(target.attacker_tls)
    calls = GrpcTransport(credentials, token_source(target.attacker_token))
    try:
        await calls.call_unary(target.proxy, method, request, 5.0)  # type: ignore[arg-type]
    except RhumblineError:
        return REFUSED
    finally:
        await calls.aclose()
    return SERVED


async def read_status(target: Attacked) -> str:
    """Ask a status server for its state."""
    credentials = credentials_of(target.attacker_tls)
    try:
        found = await fetch_status(
            *target.proxy_status, "/stat", timeout_ms=5_000, credentials=credentials
        )
    except (OSError, ValueError, TimeoutError):
        return REFUSED
    return REFUSED if "error" in found else SERVED


async def is_ready_beside_idle_connections(target: Attacked) -> bool:
    """Hold connections to a status server, and ask whether it is ready."""
    async with AsyncExitStack() as closing:
        for _ in range(IDLE):
            _, held = await asyncio.open_connection(*target.proxy_status)
            closing.callback(held.close)
        ready = await fetch_status(
            *target.proxy_status, "/readyz", timeout_ms=5_000,
            credentials=credentials_of(target.victim_tls),
        )  # fmt: skip
    return ready == {"ready": True}


async def fence(client: Client, wire: WireAttacker) -> str:
    """Fence a ledger that another process writes, with the empty password."""
    ledger = await client.ledgers.create(Quorum(3, 3, 3))
    await append_entry(ledger)
    await wire.ask(v2.encode_read(ledger.ledger_id, 0, v2.FLAG_FENCE, master_key(b"")))
    return REFUSED if await append_entry(ledger) is None else SERVED


async def append_entry(ledger: LedgerWriter) -> object:
    """Append to a ledger, and return the error."""
    done: asyncio.Future[object] = asyncio.get_running_loop().create_future()
    ledger.add(b"an entry", lambda *outcome: done.set_result(outcome[1]))
    return await done


async def attack(target: Attacked, client: Client, writer: LogWriter) -> dict[str, str]:
    """Make every attack, and return the outcomes; the writer must not notice any of them."""
    found = {}
    await append_some(writer, 10)
    async with WireAttacker(target.bookie_ports[0], target.attacker_tls) as wire:
        reads = [v2.encode_read(ledger, 0) for ledger in range(LEDGERS)]
        answers = [await wire.ask(read) for read in reads]
        is_read = any(b"planted" in answer for answer in answers)
        found["read entries from a bookie"] = SERVED if is_read else REFUSED
        await append_some(writer, 10)
        found["fence a ledger"] = await fence(client, wire)
        garbage = len(b"garbage").to_bytes(4, "big") + b"garbage"
        await wire.ask(garbage)
    create = pb.CreateStreamRequest(namespace=NAMESPACE, stream="of-the-attacker")
    delete = pb.DeleteStreamRequest(namespace=NAMESPACE, stream="of-the-attacker")
    found["create a stream"] = await call_proxy(target, methods.CREATE_STREAM, create)
    found["delete a stream"] = await call_proxy(target, methods.DELETE_STREAM, delete)
    drain = pb.SetAcceptingRequest(is_accepting=True)
    found["drain a proxy"] = await call_proxy(target, methods.SET_ACCEPTING, drain)
    found["read the state of a server"] = await read_status(target)
    assert await is_ready_beside_idle_connections(target)
    await append_some(writer, 10)
    return found


@pytest.mark.parametrize("mode", MODES)
async def test_attacks_are_refused_and_audited_and_disturb_nobody(
    mode: str, tmp_path: Path
) -> None:
    async with asyncio.timeout(90), attacked(mode, tmp_path) as target:
        async with (
            connect(target.cluster.metadata_uri, region=REGION, tls=target.victim_tls) as client,
            client.writer(STREAM) as writer,
        ):
            assert isinstance(client, Client)
            found = await attack(target, client, writer)
        refused = {
            (action, error)
            for action, result, error in target.sink.counts
            if result == AuditResult.REFUSED
        }
    print(f"{mode}: {found}, audited: {sorted(refused)}")
    expected = dict.fromkeys(found, SERVED if mode in OPEN_TO_ALL else REFUSED)
    if mode == "mTLS and grants":
        expected["read the state of a server"] = SERVED  # to every holder of a certificate
    assert found == expected
    assert refused, "malformed messages are audited in every mode"
    if mode in ("TLS", "TLS and token"):
        assert {("CreateStream", "unauthorized"), ("DeleteStream", "unauthorized")} <= refused
    if mode == "mTLS and grants":
        assert {
            ("connect", "role-not-served"),
            ("CreateStream", "permission-denied"),
            ("DeleteStream", "permission-denied"),
            ("SetAccepting", "permission-denied"),
        } <= refused
    elif mode != "plain":
        assert ("connect", "no-handshake") in refused
