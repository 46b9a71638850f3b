"""Tests of TLS, passwords and client certificates on real servers, with generated certificates.

The URIs that work are those of the guide, with other servers, paths and files in them.
"""

import asyncio
import re
import ssl
from base64 import b64encode
from collections.abc import Iterator
from pathlib import Path

import pytest

from rhumbline.backends.conformance.assertions import ChangeSignal, eventually
from rhumbline.chaos.lab.ports import free_port
from rhumbline.core.protocol.errors import (
    MetadataUnavailableError,
    RhumblineError,
    UnauthorizedError,
)
from rhumbline.tests.support.processes.store_user import opened, use
from rhumbline.tests.support.servers import metadata_servers
from rhumbline.tests.support.servers.certificates import CLIENT, Certificates, Pair, certificates
from rhumbline.tests.support.servers.metadata_servers import Etcd, ZooKeeper
from rhumbline.tests.support.servers.store_locations import ETCD, ZOOKEEPER, unique_name
from rhumbline.tests.support.tidy.doc_blocks import blocks

GUIDE = Path(__file__).parents[3] / "docs/how-to/choose-a-metadata-store.md"

REFUSED_MS = 700
"""Time-out of clients that cannot get a connection."""


@pytest.fixture(scope="module")
def certs(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return certificates(tmp_path_factory.mktemp("tls") / "made")


async def refused(uri: str, error: type[RhumblineError]) -> str:
    timeout_ms = REFUSED_MS if error is MetadataUnavailableError else 10_000
    with pytest.raises(error) as refusal:
        async with opened(uri, timeout_ms) as store:
            await store.get("/")
    return str(refusal.value)


def documented(scheme: str, option: str, location: str, **files: Path) -> str:
    """Return the guide's URI of a scheme with an option, changed to ``location`` and ``files``."""
    shown = [line for block in blocks(GUIDE.read_text()) for line in block.text.splitlines()]
    (found,) = [line for line in shown if line.startswith(f"{scheme}://") and option in line]
    uri = re.sub(r"://[^/]+/rhumbline", lambda _: f"://{location}", found)
    for name, file in files.items():
        uri = re.sub(rf"{name}=[^&]+", f"{name}={file}", uri)
    assert "/etc/" not in uri
    return uri


def tls(ca: Path, pair: Pair | None = None) -> str:
    """Return the TLS options of a URI."""
    own = "" if pair is None else f"&tls_cert={pair.cert}&tls_key={pair.key}"
    return f"tls_ca={ca}{own}"


def auth_file(path: Path, line: str) -> Path:
    file = path / f"auth-{len(list(path.iterdir()))}"
    file.write_text(f"{line}\n")
    return file


# --- ZooKeeper ----------------------------------------------------------------------------------


@pytest.fixture
def secure_zookeeper(certs: Certificates, request: pytest.FixtureRequest) -> Iterator[str]:
    """The address of a server with TLS; with ``certificates`` clients need one too."""
    server = metadata_servers.started(ZooKeeper)
    port = free_port()
    server.java_options = [
        "-Dzookeeper.serverCnxnFactory=org.apache.zookeeper.server.NettyServerCnxnFactory"
    ]
    server.settings = [
        f"secureClientPort={port}",
        "ssl.keyStore.type=PEM",
        f"ssl.keyStore.location={certs.server.both}",
        "ssl.trustStore.type=PEM",
        f"ssl.trustStore.location={certs.ca}",
    ]
    if request.param == "certificates":
        server.settings += [
            "authProvider.x509=org.apache.zookeeper.server.auth.X509AuthenticationProvider"
        ]
    else:
        server.settings += ["ssl.clientAuth=none"]
    server.start()
    yield f"127.0.0.1:{port}"
    server.remove()


@ZOOKEEPER
@pytest.mark.parametrize("secure_zookeeper", ["certificates"], indirect=True)
@pytest.mark.filterwarnings("ignore:unclosed <ssl:ResourceWarning")  # kazoo leaves failed ones open
async def test_zookeeper_with_server_and_client_certificates(
    secure_zookeeper: str, certs: Certificates
) -> None:
    name = unique_name()
    base_uri = f"zk://{secure_zookeeper}/{name}"
    await use(
        documented(
            "zk", "tls_cert", f"{secure_zookeeper}/{name}",
            tls_ca=certs.ca, tls_cert=certs.client.cert, tls_key=certs.client.key,
        )
    )  # fmt: skip
    for stranger in (
        f"{base_uri}?{tls(certs.other_ca, certs.client)}",  # not the server's authority
        f"{base_uri}?{tls(certs.ca, certs.stranger)}",
        f"{base_uri}?{tls(certs.ca)}",
        base_uri,
    ):
        await refused(stranger, MetadataUnavailableError)


@ZOOKEEPER
@pytest.mark.parametrize("secure_zookeeper", ["passwords"], indirect=True)
async def test_zookeeper_with_passwords_over_tls(
    secure_zookeeper: str, certs: Certificates, tmp_path: Path
) -> None:
    """The nodes of one user are inaccessible to other users and to anonymous clients."""
    at = f"{secure_zookeeper}/{unique_name()}"
    base_uri = f"zk://{at}?{tls(certs.ca)}"
    own, wrong = (auth_file(tmp_path, f"digest:me:{word}") for word in ("secret", "guess"))
    await use(documented("zk", "auth_file", at, tls_ca=certs.ca, auth_file=own))
    async with opened(f"{base_uri}&auth_file={own}") as store:
        assert "secret" not in store.uri
        assert "auth" not in store.uri
    for stranger in (f"{base_uri}&auth_file={wrong}", base_uri):
        assert "NoAuth" in await refused(stranger, UnauthorizedError)


# --- etcd ---------------------------------------------------------------------------------------


@pytest.fixture
def secure_etcd(certs: Certificates, request: pytest.FixtureRequest) -> Iterator[Etcd]:
    """A server with TLS; with ``certificates`` it accepts only clients with a certificate."""
    server = metadata_servers.started(Etcd)
    server.flags = [f"--cert-file={certs.server.cert}", f"--key-file={certs.server.key}"]
    server.tls = ssl.create_default_context(cafile=str(certs.ca))
    if request.param == "certificates":
        server.flags += [f"--trusted-ca-file={certs.ca}", "--client-cert-auth"]
        server.tls.load_cert_chain(certs.client.cert, certs.client.key)
    server.start()
    yield server
    server.remove()


def begin_users(server: Etcd, user: str, password: str | None, prefix: str) -> None:
    """Enable authentication, and restrict ``user`` to its prefix."""

    def encoded(text: str) -> str:
        return b64encode(text.encode()).decode()

    server.call("auth/user/add", name="root", password="admin")
    server.call("auth/user/grant", user="root", role="root")
    options = {} if password is not None else {"options": {"no_password": True}}
    server.call("auth/user/add", name=user, password=password or "", **options)
    server.call("auth/role/add", name="ours")
    permission = {
        "permType": "READWRITE",
        "key": encoded(prefix),
        "range_end": encoded(prefix[:-1] + chr(ord(prefix[-1]) + 1)),
    }
    server.call("auth/role/grant", name="ours", perm=permission)
    server.call("auth/user/grant", user=user, role="ours")
    server.call("auth/enable")


@ETCD
@pytest.mark.parametrize("secure_etcd", ["certificates"], indirect=True)
async def test_etcd_with_server_and_client_certificates(
    secure_etcd: Etcd, certs: Certificates
) -> None:
    at = f"{secure_etcd.address}/{unique_name()}"
    base_uri = f"etcd://{at}"
    await use(
        documented(
            "etcd", "tls_cert", at,
            tls_ca=certs.ca, tls_cert=certs.client.cert, tls_key=certs.client.key,
        )
    )  # fmt: skip
    for stranger in (
        f"{base_uri}?{tls(certs.other_ca, certs.client)}",
        f"{base_uri}?{tls(certs.ca, certs.stranger)}",
        f"{base_uri}?{tls(certs.ca)}",
        base_uri,
    ):
        await refused(stranger, MetadataUnavailableError)


@ETCD
@pytest.mark.parametrize("secure_etcd", ["certificates"], indirect=True)
async def test_etcd_uses_the_name_in_the_client_certificate_as_the_user(
    secure_etcd: Etcd, certs: Certificates
) -> None:
    begin_users(secure_etcd, CLIENT, None, "/ours/")
    own = tls(certs.ca, certs.client)
    await use(f"etcd://{secure_etcd.address}/ours/a?{own}")
    await refused(f"etcd://{secure_etcd.address}/theirs?{own}", UnauthorizedError)


@ETCD
@pytest.mark.parametrize("secure_etcd", ["passwords"], indirect=True)
async def test_etcd_with_passwords_over_tls(
    secure_etcd: Etcd, certs: Certificates, tmp_path: Path
) -> None:
    """A user can access only its own prefix; a handle survives the loss of tokens by a restart."""
    begin_users(secure_etcd, "me", "secret", "/ours/")
    own, wrong, nobody = (
        auth_file(tmp_path, line) for line in ("me:secret", "me:guess", "you:secret")
    )
    base_uri, ca = f"etcd://{secure_etcd.address}", tls(certs.ca)
    at = f"{secure_etcd.address}/ours/a"
    await use(documented("etcd", "auth_file", at, tls_ca=certs.ca, auth_file=own))
    for stranger in (
        f"{base_uri}/ours/b?{ca}&auth_file={wrong}",
        f"{base_uri}/ours/b?{ca}&auth_file={nobody}",
        f"{base_uri}/ours/b?{ca}",
        f"{base_uri}/theirs?{ca}&auth_file={own}",
    ):
        message = await refused(stranger, UnauthorizedError)
        assert "secret" not in message
    async with opened(f"{base_uri}/ours/c?{ca}&auth_file={own}") as store:
        assert "secret" not in store.uri
        changes = ChangeSignal()
        await store.create("/n", b"before")
        store.watch("/n", changes.notify)
        session = await store.session(20_000)
        await changes.drain()
        secure_etcd.kill()
        secure_etcd.launch()
        await asyncio.to_thread(secure_etcd.wait_ready)

        async def works() -> bool:
            try:
                await store.put("/n", b"after")
            except RhumblineError:
                return False
            return True

        await eventually(works, "the handle authenticates again")
        await changes.wait_notified("the watch authenticates again")
        await asyncio.sleep(1)
        assert not session.is_lost
