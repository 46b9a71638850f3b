"""TLS, passwords and client certificates, on real servers with certificates made for the test.

The URIs that work are those of the guide, with other servers, places and files in them.
"""

import asyncio
import re
import ssl
from base64 import b64encode
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from rhumbline.backends.conformance.assertions import ChangeSignal, eventually
from rhumbline.backends.open_store import open_store
from rhumbline.chaos.lab.ports import free_port
from rhumbline.core.protocol.errors import (
    MetadataUnavailableError,
    RhumblineError,
    UnauthorizedError,
)
from rhumbline.core.runtime.metadata_store import Create, MetadataStore
from rhumbline.tests.support.servers import metadata_servers
from rhumbline.tests.support.servers.certificates import CLIENT, Certificates, Pair, certificates
from rhumbline.tests.support.servers.metadata_servers import Etcd, ZooKeeper
from rhumbline.tests.support.servers.store_locations import ETCD, ZOOKEEPER, unique_name
from rhumbline.tests.support.tidy.doc_blocks import blocks

GUIDE = Path(__file__).parents[3] / "docs/how-to/choose-a-metadata-store.md"

REFUSED_MS = 700
"""How long those try who do not even get a connection."""


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return certificates(tmp_path_factory.mktemp("tls") / "made")


@asynccontextmanager
async def opened(uri: str, timeout_ms: int = 10_000) -> AsyncIterator[MetadataStore]:
    store = await open_store(uri, timeout_ms=timeout_ms)
    try:
        yield store
    finally:
        await store.close()


async def use(uri: str) -> None:
    """Whatever a process does with a store: values, transactions, numbers, sessions, watches."""
    async with opened(uri) as store, opened(uri) as other:
        path, version = await store.create("/a/b", b"1")
        changes = ChangeSignal()
        other.watch("/a", changes.notify, prefix=True)
        await changes.drain()
        await store.put(path, b"2", expect=version)
        await changes.wait_notified("a change")
        assert (await other.get(path)).data == b"2"
        await store.txn([Create("/c"), Create("/d/e")])
        numbered = [(await store.create("/q/n-", sequential=True))[0] for _ in range(2)]
        assert sorted(set(numbered)) == numbered
        session = await store.session(2_000)
        await store.create("/claim", ephemeral=session)
        assert "claim" in await other.children("/")
        await session.close()
        assert "claim" not in await other.children("/")


async def refused(uri: str, error: type[RhumblineError]) -> str:
    timeout_ms = REFUSED_MS if error is MetadataUnavailableError else 10_000
    with pytest.raises(error) as refusal:
        async with opened(uri, timeout_ms) as store:
            await store.get("/")
    return str(refusal.value)


def documented(scheme: str, option: str, place: str, **files: Path) -> str:
    """The guide's URI of a scheme that has an option, for ``place`` and these files."""
    shown = [line for block in blocks(GUIDE.read_text()) for line in block.text.splitlines()]
    (found,) = [line for line in shown if line.startswith(f"{scheme}://") and option in line]
    uri = re.sub(r"://[^/]+/rhumbline", lambda _: f"://{place}", found)
    for name, file in files.items():
        uri = re.sub(rf"{name}=[^&]+", f"{name}={file}", uri)
    assert "/etc/" not in uri
    return uri


def tls(ca: Path, pair: Pair | None = None) -> str:
    """The options of a URI."""
    own = "" if pair is None else f"&tls_cert={pair.cert}&tls_key={pair.key}"
    return f"tls_ca={ca}{own}"


def auth_file(path: Path, line: str) -> Path:
    file = path / f"auth-{len(list(path.iterdir()))}"
    file.write_text(f"{line}\n")
    return file


# --- ZooKeeper ----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def secure_zookeeper(made: Certificates) -> Iterator[str]:
    """host:port of a server that takes only clients with a certificate."""
    server = metadata_servers.started(ZooKeeper)
    port = free_port()
    server.java_options = [
        "-Dzookeeper.serverCnxnFactory=org.apache.zookeeper.server.NettyServerCnxnFactory"
    ]
    server.settings = [
        f"secureClientPort={port}",
        "ssl.keyStore.type=PEM",
        f"ssl.keyStore.location={made.server.both}",
        "ssl.trustStore.type=PEM",
        f"ssl.trustStore.location={made.ca}",
        "authProvider.x509=org.apache.zookeeper.server.auth.X509AuthenticationProvider",
    ]
    server.start()
    yield f"127.0.0.1:{port}"
    server.remove()


@ZOOKEEPER
@pytest.mark.filterwarnings("ignore:unclosed <ssl:ResourceWarning")  # kazoo forgets failed ones
def test_zookeeper_with_certificates_of_both_sides(
    secure_zookeeper: str, made: Certificates
) -> None:
    name = unique_name()
    place = f"zk://{secure_zookeeper}/{name}"

    async def run() -> None:
        await use(
            documented(
                "zk", "tls_cert", f"{secure_zookeeper}/{name}",
                tls_ca=made.ca, tls_cert=made.client.cert, tls_key=made.client.key,
            )
        )  # fmt: skip
        for stranger in (
            f"{place}?{tls(made.other_ca, made.client)}",  # it is not the server that we trust
            f"{place}?{tls(made.ca, made.stranger)}",
            f"{place}?{tls(made.ca)}",
            place,
        ):
            await refused(stranger, MetadataUnavailableError)

    asyncio.run(run())


@ZOOKEEPER
def test_zookeeper_with_passwords(tmp_path: Path) -> None:
    """What one user made is closed to others, and to who says nothing."""
    at = f"{metadata_servers.zookeeper().address}/{unique_name()}"
    place = f"zk://{at}"
    own, wrong = (auth_file(tmp_path, f"digest:me:{word}") for word in ("secret", "guess"))

    async def run() -> None:
        await use(documented("zk", "auth_file", at, auth_file=own))
        async with opened(f"{place}?auth_file={own}") as store:
            assert "secret" not in store.uri
            assert "auth" not in store.uri
        for stranger in (f"{place}?auth_file={wrong}", place):
            assert "NoAuth" in await refused(stranger, UnauthorizedError)

    asyncio.run(run())


# --- etcd ---------------------------------------------------------------------------------------


@pytest.fixture
def secure_etcd(made: Certificates, request: pytest.FixtureRequest) -> Iterator[Etcd]:
    """A server with TLS; ``certificates``: it takes only clients with one of its authority."""
    server = metadata_servers.started(Etcd)
    server.flags = [f"--cert-file={made.server.cert}", f"--key-file={made.server.key}"]
    server.tls = ssl.create_default_context(cafile=str(made.ca))
    if request.param == "certificates":
        server.flags += [f"--trusted-ca-file={made.ca}", "--client-cert-auth"]
        server.tls.load_cert_chain(made.client.cert, made.client.key)
    server.start()
    yield server
    server.remove()


def begin_users(server: Etcd, user: str, password: str | None, prefix: str) -> None:
    """From now on only known users get in, and ``user`` only below its prefix."""

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
def test_etcd_with_certificates_of_both_sides(secure_etcd: Etcd, made: Certificates) -> None:
    at = f"{secure_etcd.address}/{unique_name()}"
    place = f"etcd://{at}"

    async def run() -> None:
        await use(
            documented(
                "etcd", "tls_cert", at,
                tls_ca=made.ca, tls_cert=made.client.cert, tls_key=made.client.key,
            )
        )  # fmt: skip
        for stranger in (
            f"{place}?{tls(made.other_ca, made.client)}",
            f"{place}?{tls(made.ca, made.stranger)}",
            f"{place}?{tls(made.ca)}",
            place,
        ):
            await refused(stranger, MetadataUnavailableError)

    asyncio.run(run())


@ETCD
@pytest.mark.parametrize("secure_etcd", ["certificates"], indirect=True)
def test_etcd_takes_the_name_in_the_certificate_as_the_user(
    secure_etcd: Etcd, made: Certificates
) -> None:
    async def run() -> None:
        begin_users(secure_etcd, CLIENT, None, "/ours/")
        own = tls(made.ca, made.client)
        await use(f"etcd://{secure_etcd.address}/ours/a?{own}")
        await refused(f"etcd://{secure_etcd.address}/theirs?{own}", UnauthorizedError)

    asyncio.run(run())


@ETCD
@pytest.mark.parametrize("secure_etcd", ["passwords"], indirect=True)
def test_etcd_with_passwords_over_tls(
    secure_etcd: Etcd, made: Certificates, tmp_path: Path
) -> None:
    """A user sees its own prefix only; a handle outlives the tokens that a restart forgets."""
    begin_users(secure_etcd, "me", "secret", "/ours/")
    own, wrong, nobody = (
        auth_file(tmp_path, line) for line in ("me:secret", "me:guess", "you:secret")
    )
    place, ca = f"etcd://{secure_etcd.address}", tls(made.ca)

    async def run() -> None:
        at = f"{secure_etcd.address}/ours/a"
        await use(documented("etcd", "auth_file", at, tls_ca=made.ca, auth_file=own))
        for stranger in (
            f"{place}/ours/b?{ca}&auth_file={wrong}",
            f"{place}/ours/b?{ca}&auth_file={nobody}",
            f"{place}/ours/b?{ca}",
            f"{place}/theirs?{ca}&auth_file={own}",
        ):
            said = await refused(stranger, UnauthorizedError)
            assert "secret" not in said
        async with opened(f"{place}/ours/c?{ca}&auth_file={own}") as store:
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

            await eventually(works, "the handle shows its password again")
            await changes.wait_notified("so does its watch")
            await asyncio.sleep(1)
            assert not session.is_lost

    asyncio.run(run())
