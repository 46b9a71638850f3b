"""The server side of TLS, on real sockets: who gets in, and what becomes of the others."""

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest

from rhumbline.core.runtime.primitives.transport_security import (
    PASS,
    WAIT,
    FirstStep,
    FirstVerdict,
)
from rhumbline.security.audit import NO_AUDIT, AuditEvent, AuditSink
from rhumbline.security.principal import Role
from rhumbline.security.settings import SecuritySettings, TlsSettings
from rhumbline.tests.support.fakes.recorded_log import recorded_log
from rhumbline.tests.support.security.certificates import authority, settings_for
from rhumbline.tests.support.security.tls_scan import s_client
from rhumbline.tls.certificate import decode_der
from rhumbline.tls.credentials import TlsCredentials
from rhumbline.tls.gate import TlsGate
from rhumbline.tls.protection import Protection
from rhumbline.tls.tls_transport import PEER_CERTIFICATE

HOST = "127.0.0.1"
BODY = bytes(range(256)) * 4096  # 1 MiB


class Echo(asyncio.Protocol):
    """Sends back what it receives, and pauses reading while it cannot send."""

    def __init__(self) -> None:
        self.transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport) or hasattr(transport, "write")
        self.transport = transport  # type: ignore[assignment]

    def data_received(self, data: bytes) -> None:
        assert self.transport is not None
        self.transport.write(data)

    def pause_writing(self) -> None:
        assert self.transport is not None
        self.transport.pause_reading()

    def resume_writing(self) -> None:
        assert self.transport is not None
        self.transport.resume_reading()


def judge(data: bytes) -> FirstVerdict:
    """Judge a small protocol of lines of four bytes."""
    if len(data) < 4:
        return WAIT
    if data[:4] == b"TLS\n":
        return FirstVerdict(FirstStep.UPGRADE, b"YES\n")
    return PASS if data[:4] == b"GO!\n" else FirstVerdict(FirstStep.REFUSE, b"NO!\n")


@asynccontextmanager
async def serving(
    settings: TlsSettings, *, needs_certificate: bool = True, audit: AuditSink = NO_AUDIT
) -> AsyncIterator[tuple[TlsGate, int]]:
    """Serve echoes behind a gate."""
    gate = TlsGate(TlsCredentials(settings), needs_certificate=needs_certificate, audit=audit)
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: gate.guard(Echo, judge), HOST, 0)
    try:
        yield gate, server.sockets[0].getsockname()[1]
    finally:
        gate.close()
        server.close()


async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, body: bytes) -> bytes:
    writer.write(body)
    async with asyncio.timeout(30):
        return await reader.readexactly(len(body))


async def test_tls_from_the_first_byte_carries_data_in_both_directions(tmp_path: Path) -> None:
    made = authority(tmp_path)
    client = TlsCredentials(settings_for(made, "client")).client_context()
    async with serving(settings_for(made, "server", Role.BOOKIE)) as (gate, port):
        reader, writer = await asyncio.open_connection(HOST, port, ssl=client)
        assert await echo(reader, writer, BODY) == BODY
        writer.close()
        assert gate.counts == {"tls": 1}
        assert gate.waiting_count == 0


async def test_a_plain_connection_is_upgraded_in_place(tmp_path: Path) -> None:
    made = authority(tmp_path)
    client = TlsCredentials(settings_for(made, "client")).client_context()
    async with serving(settings_for(made, "server", Role.BOOKIE)) as (_, port):
        reader, writer = await asyncio.open_connection(HOST, port)
        writer.write(b"TL")
        writer.write(b"S\n")
        assert await reader.readexactly(4) == b"YES\n"
        await writer.start_tls(client, server_hostname=HOST)
        assert await echo(reader, writer, BODY) == BODY
        writer.close()


async def test_plain_connections_pass_and_others_are_refused(tmp_path: Path) -> None:
    async with serving(settings_for(authority(tmp_path), "server", Role.BOOKIE)) as (gate, port):
        reader, writer = await asyncio.open_connection(HOST, port)
        assert await echo(reader, writer, b"GO!\nand more") == b"GO!\nand more"
        writer.close()
        reader, writer = await asyncio.open_connection(HOST, port)
        writer.write(b"hello")
        assert await reader.read() == b"NO!\n"
        assert gate.counts == {"plain": 1, "refused": 1}
        writer.close()


async def test_clients_without_a_certificate_of_the_authority_are_refused(tmp_path: Path) -> None:
    made, others = authority(tmp_path / "a"), authority(tmp_path / "b")
    foreign = settings_for(others, "client")
    stranger = TlsCredentials(
        TlsSettings(certificate=foreign.certificate, key=foreign.key, ca=str(made.certificate_file))
    )
    nobody = TlsCredentials(TlsSettings(ca=str(made.certificate_file)))
    async with serving(settings_for(made, "server", Role.BOOKIE)) as (gate, port):
        for credentials in (stranger, nobody):
            with pytest.raises((ssl.SSLError, ConnectionError)):
                reader, writer = await asyncio.open_connection(
                    HOST, port, ssl=credentials.client_context()
                )
                await echo(reader, writer, b"x")  # TLS 1.3: the refusal follows the handshake
        assert gate.counts["failed"] == 2
        assert gate.counts["tls"] == 0


async def test_expired_certificates_are_refused(tmp_path: Path) -> None:
    made = authority(tmp_path)
    expired = TlsCredentials(settings_for(made, "old", days=-0.001)).client_context()
    async with serving(settings_for(made, "server", Role.BOOKIE)) as (gate, port):
        with pytest.raises((ssl.SSLError, ConnectionError)):
            reader, writer = await asyncio.open_connection(HOST, port, ssl=expired)
            await echo(reader, writer, b"x")
        assert gate.counts["failed"] == 1


async def test_a_client_certificate_may_be_optional(tmp_path: Path) -> None:
    made = authority(tmp_path)
    nobody = TlsCredentials(TlsSettings(ca=str(made.certificate_file))).client_context()
    settings = settings_for(made, "server", Role.BOOKIE)
    async with serving(settings, needs_certificate=False) as (_, port):
        reader, writer = await asyncio.open_connection(HOST, port, ssl=nobody)
        assert await echo(reader, writer, b"x") == b"x"
        writer.close()


async def test_the_certificate_of_a_client_is_no_certificate_of_a_server(tmp_path: Path) -> None:
    made = authority(tmp_path)
    client = TlsCredentials(settings_for(made, "client"))
    async with serving(settings_for(made, "impostor", Role.CLIENT)) as (_, port):
        with pytest.raises(ssl.SSLCertVerificationError):
            await asyncio.open_connection(HOST, port, ssl=client.client_context())


async def test_a_silent_connection_is_closed_in_time(tmp_path: Path) -> None:
    settings = settings_for(authority(tmp_path), "server", Role.BOOKIE, handshake_ms_max=20)
    async with serving(settings) as (gate, port):
        with recorded_log() as log:
            for begin in (b"", b"T", b"\x16\x03\x01"):
                reader, writer = await asyncio.open_connection(HOST, port)
                writer.write(begin)
                async with asyncio.timeout(30):
                    assert await reader.read() == b""
                writer.close()
        assert log.events() == ["handshake failed"]  # one line, however many there are
        assert gate.counts == {"failed": 3}
        assert gate.waiting_count == 0


async def test_the_oldest_waiting_connection_makes_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rhumbline.tls.gate._WAITING_MAX", 2)
    async with serving(settings_for(authority(tmp_path), "server", Role.BOOKIE)) as (gate, port):
        streams = [await asyncio.open_connection(HOST, port) for _ in range(3)]
        async with asyncio.timeout(30):
            assert await streams[0][0].read() == b""
        assert gate.waiting_count == 2
        for _, writer in streams:
            writer.close()


async def test_a_bookie_may_serve_the_clusters_own_parts_only(tmp_path: Path) -> None:
    made = authority(tmp_path)
    security = SecuritySettings(
        bookie_clients="internal", roles=(("spiffe://test/client/trusted", "proxy"),)
    )
    credentials = TlsCredentials(settings_for(made, "server", Role.BOOKIE))
    gate = Protection(credentials, security).bookie_gate()
    assert gate is not None
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: gate.guard(Echo, judge), HOST, 0)
    port = server.sockets[0].getsockname()[1]
    with recorded_log() as log:
        for name, role, is_served in (
            ("proxy", Role.PROXY, True),
            ("app", Role.CLIENT, False),
            ("trusted", Role.CLIENT, True),
        ):
            context = TlsCredentials(settings_for(made, name, role)).client_context()
            reader, writer = await asyncio.open_connection(HOST, port, ssl=context)
            writer.write(b"x")
            async with asyncio.timeout(30):
                assert await reader.read(1) == (b"x" if is_served else b"")
            writer.close()
    assert [str(one["principal"]) for one in log.fields("client refused")] == [
        "spiffe://test/client/app"
    ]
    assert gate.counts == {"tls": 2, "denied": 1}
    server.close()


async def test_the_server_knows_the_certificate_of_its_client(tmp_path: Path) -> None:
    made = authority(tmp_path)
    settings = settings_for(made, "client")
    server = TlsGate(TlsCredentials(settings_for(made, "server", Role.BOOKIE)))
    accepted: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()

    class Asking(Echo):
        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            super().connection_made(transport)
            accepted.set_result(transport.get_extra_info(PEER_CERTIFICATE))

    loop = asyncio.get_running_loop()
    listening = await loop.create_server(lambda: server.guard(Asking, judge), HOST, 0)
    port = listening.sockets[0].getsockname()[1]
    context = TlsCredentials(settings).client_context()
    _, writer = await asyncio.open_connection(HOST, port, ssl=context)
    der = await asyncio.wait_for(accepted, 30)
    assert decode_der(der).names.uris == ("spiffe://test/client/client",)
    writer.close()
    listening.close()


async def test_an_address_with_many_handshakes_closes_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rhumbline.tls.gate._WAITING_MAX", 4)
    credentials = TlsCredentials(settings_for(authority(tmp_path), "server"))
    gate = TlsGate(credentials)
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: gate.guard(Echo, judge), HOST, 0)
    port = server.sockets[0].getsockname()[1]
    quiet = await asyncio.open_connection(HOST, port, local_addr=("127.0.0.2", 0))
    flood = []
    for _ in range(6):
        flood.append(await asyncio.open_connection(HOST, port))
        await asyncio.sleep(0.05)  # until it is accepted
    async with asyncio.timeout(5):
        assert await flood[0][0].read() == b""
        assert await flood[1][0].read() == b""
    assert gate.waiting_count >= 4
    quiet[1].write(b"NO!\n")  # it still waits, so it is judged
    async with asyncio.timeout(5):
        assert await quiet[0].read() == b"NO!\n"
    gate.close()
    server.close()
    for _, writer in (quiet, *flood):
        writer.close()


async def test_a_renegotiation_is_refused_at_once(tmp_path: Path) -> None:
    made = authority(tmp_path)
    tls = settings_for(made, "client")
    async with serving(settings_for(made, "server", Role.BOOKIE)) as (_, port):
        own = ("-tls1_2", "-cert", tls.certificate, "-key", tls.key)
        printed = await s_client(port, tls, *own, sends=b"R\n")  # waits for the end by itself
    assert "RENEGOTIATING" in printed
    assert "no renegotiation" in printed


async def test_a_connection_ends_with_the_certificate_of_its_client(tmp_path: Path) -> None:
    made, audit = authority(tmp_path), RecordedEvents()
    client = TlsCredentials(settings_for(made, "app", days=2 / 86_400)).client_context()
    settings = settings_for(made, "server", Role.BOOKIE)
    async with serving(settings, audit=audit) as (gate, port):
        reader, writer = await asyncio.open_connection(HOST, port, ssl=client)
        assert await echo(reader, writer, b"before") == b"before"
        async with asyncio.timeout(30):
            with suppress(ConnectionError):
                assert await reader.read() == b""
        assert gate.counts == {"tls": 1, "expired": 1}
        assert [(event.principal, event.error) for event in audit.events] == [
            ("spiffe://test/client/app", "certificate-expired")
        ]
        writer.close()


async def test_a_connection_that_closes_before_is_not_reported(tmp_path: Path) -> None:
    made, audit = authority(tmp_path), RecordedEvents()
    client = TlsCredentials(settings_for(made, "app", days=2 / 86_400)).client_context()
    async with serving(settings_for(made, "server", Role.BOOKIE), audit=audit) as (gate, port):
        reader, writer = await asyncio.open_connection(HOST, port, ssl=client)
        assert await echo(reader, writer, b"before") == b"before"
        writer.close()
        await asyncio.sleep(2.5)
        assert gate.counts == {"tls": 1}
        assert audit.events == []


class RecordedEvents:
    """Remembers audit events. Implements AuditSink."""

    def __init__(self) -> None:
        self.events: list[AuditEvent] = []

    def record(self, event: AuditEvent) -> None:
        """See AuditSink."""
        self.events.append(event)
