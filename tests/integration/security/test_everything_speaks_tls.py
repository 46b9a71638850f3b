"""A cluster and a proxy with TLS on every port, and certificates that are renewed under load."""

import asyncio
import ssl
from pathlib import Path

import pytest

from rhumbline.cli.servers.local_cluster import HOST
from rhumbline.client.connect import Client, connect, connect_proxies
from rhumbline.core.ledger.config import LedgerConfig
from rhumbline.core.protocol.errors import RhumblineError, UnavailableError
from rhumbline.core.protocol.quorum import Quorum
from rhumbline.proxies.rpc import methods
from rhumbline.proxies.rpc import rhumbline_pb2 as pb
from rhumbline.proxies.rpc.grpc_calls import GrpcTransport
from rhumbline.security.principal import Role
from rhumbline.security.settings import TlsSettings
from rhumbline.server.status_server import fetch_status
from rhumbline.tests.support.security.certificates import settings_for
from rhumbline.tests.support.security.secured_cluster import (
    REGION,
    SERVER_ROLES,
    STREAM,
    secured,
)
from rhumbline.tls.authority import SERVER_NAME
from rhumbline.tls.credentials import TlsCredentials, credentials_of


async def test_streams_are_written_and_read_over_tls(tmp_path: Path) -> None:
    async with asyncio.timeout(60), secured(tmp_path) as made:
        async with (
            connect(made.cluster.metadata_uri, region=REGION, tls=made.client_tls) as client,
            client.writer(STREAM) as writer,
        ):
            for number in range(50):
                await writer.append(b"core %d" % number * 5_000)
        async with connect(f"grpc://{made.proxy.address}", tls=made.client_tls) as thin:
            async with thin.writer(STREAM) as writer:
                await writer.append(b"thin")
            found = []
            async with thin.reader(STREAM) as reader:
                async for record in reader:
                    found.append(bytes(record.payload))
                    if record.payload == b"thin":
                        break
        assert found == [*(b"core %d" % n * 5_000 for n in range(50)), b"thin"]


async def test_nobody_gets_in_without_tls_and_a_certificate(tmp_path: Path) -> None:
    impatient = LedgerConfig(replacement_wait_ms_max=100, quorum_timeout_ms=500)
    async with asyncio.timeout(60), secured(tmp_path) as made:
        ca = str(made.authority.certificate_file)
        for tls in (None, TlsSettings(ca=ca, server_name=SERVER_NAME)):
            uri = made.cluster.metadata_uri
            async with connect(uri, region=REGION, tls=tls, ledger=impatient) as client:
                assert isinstance(client, Client)
                ledger = await client.ledgers.create(Quorum(1, 1, 1))
                done: asyncio.Future[object] = asyncio.get_running_loop().create_future()
                ledger.add(b"x", lambda *outcome, done=done: done.set_result(outcome[1]))
                assert isinstance(await done, RhumblineError)
            calls = GrpcTransport(credentials_of(tls))
            with pytest.raises(UnavailableError):
                await calls.call_unary(
                    made.proxy.address, methods.LIST_PROXIES, pb.ListProxiesRequest(), 5.0
                )
            await calls.aclose()


async def test_operators_ports_tell_strangers_only_whether_a_server_is_ready(
    tmp_path: Path,
) -> None:
    async with asyncio.timeout(60), secured(tmp_path) as made:
        stranger = TlsCredentials(
            TlsSettings(ca=str(made.authority.certificate_file), server_name=SERVER_NAME)
        )
        for host, port in made.status_addresses:
            ready = await fetch_status(
                host, port, "/readyz", timeout_ms=5_000, credentials=stranger
            )
            assert ready == {"ready": True}
            refused = await fetch_status(
                host, port, "/stat", timeout_ms=5_000, credentials=stranger
            )
            assert refused == {"error": "this path needs a client certificate"}
            known = await fetch_status(
                host, port, "/stat", timeout_ms=5_000, credentials=made.credentials
            )
            assert known["tls"]["certificate_remaining_ms"] > 0
            with pytest.raises(ValueError):
                await fetch_status(host, port, "/stat", timeout_ms=5_000)


async def test_certificates_and_the_authority_are_renewed_without_a_failed_append(
    tmp_path: Path,
) -> None:
    async with asyncio.timeout(90), secured(tmp_path) as made:
        serials = set()
        stopping = asyncio.Event()
        appended = 0

        async def append_until_stopped() -> None:
            nonlocal appended
            uri = f"grpc://{made.proxy.address}"
            async with (
                connect_proxies(uri, credentials=made.credentials) as thin,
                thin.writer(STREAM) as writer,
            ):
                while not stopping.is_set():
                    await writer.append(b"%d" % appended)
                    appended += 1
                    await asyncio.sleep(0.005)

        async def served_certificate(port: int) -> bytes:
            context = made.credentials.client_context()
            _, writer = await asyncio.open_connection(
                HOST, port, ssl=context, server_hostname=SERVER_NAME
            )
            found: bytes = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
            writer.close()
            return found

        ports = [made.cluster.bookies[0].bookie.port, int(made.proxy.address.rpartition(":")[2])]  # type: ignore[union-attr]
        writing = asyncio.create_task(append_until_stopped())
        for _ in range(2):
            served = [await served_certificate(port) for port in ports]
            serials.update(served)
            made.authority.issue("server", SERVER_ROLES, hosts=[HOST], days=1)
            made.authority.issue("client", (Role.CLIENT,), days=1)
            while set(served) & {await served_certificate(port) for port in ports}:  # noqa: ASYNC110
                await asyncio.sleep(0.1)
        before = appended
        while appended < before + 20:  # noqa: ASYNC110 - it is a number
            await asyncio.sleep(0.01)
        stopping.set()
        await writing  # raises the error of an append that failed
        assert len(serials) == 2


async def test_any_tls_client_sees_a_certificate_of_the_authority_at_every_port(
    tmp_path: Path,
) -> None:
    async with asyncio.timeout(60), secured(tmp_path) as made:
        bookies = [local.bookie for local in made.cluster.bookies if local.bookie is not None]
        ports = [bookie.port for bookie in bookies]
        ports += [port for _, port in made.status_addresses]
        ports.append(int(made.proxy.address.rpartition(":")[2]))
        for port in ports:
            process = await asyncio.create_subprocess_exec(
                "openssl", "s_client", "-connect", f"{HOST}:{port}",
                "-CAfile", str(made.authority.certificate_file),
                "-cert", made.client_tls.certificate, "-key", made.client_tls.key,
                "-verify_return_error", "-alpn", "h2",
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.STDOUT,
            )  # fmt: skip
            printed, _ = await process.communicate()
            assert b"Verify return code: 0 (ok)" in printed, printed.decode()
            assert b"TLSv1.3" in printed


async def test_expired_certificates_are_refused_until_they_are_renewed(tmp_path: Path) -> None:
    async with asyncio.timeout(90), secured(tmp_path) as made:
        ports = [local.bookie.port for local in made.cluster.bookies if local.bookie is not None]
        ports.append(int(made.proxy.address.rpartition(":")[2]))

        async def refusals() -> list[str]:
            found = []
            for port in ports:
                try:
                    _, writer = await asyncio.open_connection(
                        HOST,
                        port,
                        ssl=made.credentials.client_context(),
                        server_hostname=SERVER_NAME,
                    )
                    writer.close()
                except ssl.SSLCertVerificationError as error:
                    found.append(error.verify_message)
            return found

        async with (
            connect(made.cluster.metadata_uri, region=REGION, tls=made.client_tls) as client,
            client.writer(STREAM) as writer,
        ):
            await writer.append(b"before")
            made.authority.issue("server", SERVER_ROLES, hosts=[HOST], days=-1)
            while len(found := await refusals()) < len(ports):  # noqa: ASYNC110 - files change
                await asyncio.sleep(0.1)
            assert set(found) == {"certificate has expired"}
            await writer.append(b"over connections that are open")
            made.authority.issue("server", SERVER_ROLES, hosts=[HOST], days=1)
            while await refusals():  # noqa: ASYNC110 - as above
                await asyncio.sleep(0.1)
            await writer.append(b"after")
        expired = settings_for(made.authority, "expired", days=-1)
        calls = GrpcTransport(TlsCredentials(expired))
        with pytest.raises(UnavailableError):
            await calls.call_unary(
                made.proxy.address, methods.LIST_PROXIES, pb.ListProxiesRequest(), 5.0
            )
        await calls.aclose()
