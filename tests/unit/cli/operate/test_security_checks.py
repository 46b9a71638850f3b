"""``doctor`` says what listens where, protected by what, and until when."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from rhumbline.cli.operate import security_checks
from rhumbline.cli.operate.security_checks import (
    check_secret_files,
    check_security,
    check_store_passwords,
)
from rhumbline.cli.operate.server_checks import FAULT, OK, WARNING
from rhumbline.core.runtime.primitives.transport_security import PASS
from rhumbline.security.principal import Role
from rhumbline.security.settings import TlsSettings
from rhumbline.settings import ClusterSettings, SecuritySettings, Settings
from rhumbline.tests.support.security.certificates import authority, settings_for
from rhumbline.tls.credentials import TlsCredentials
from rhumbline.tls.gate import TlsGate
from rhumbline.tls.protection import UNPROTECTED, Protection

HOST = "127.0.0.1"


@asynccontextmanager
async def listening(settings: TlsSettings | None) -> AsyncIterator[tuple[str, int]]:
    """Listen with TLS, or without and without a word."""
    gate = None if settings is None else TlsGate(TlsCredentials(settings))

    def accept() -> asyncio.Protocol:
        return asyncio.Protocol() if gate is None else gate.guard(asyncio.Protocol, lambda _: PASS)

    server = await asyncio.get_running_loop().create_server(accept, HOST, 0)
    try:
        yield HOST, server.sockets[0].getsockname()[1]
    finally:
        server.close()


async def test_each_port_is_asked_for_its_certificate(tmp_path: Path) -> None:
    made, other = authority(tmp_path / "a"), authority(tmp_path / "b")
    own = Protection(TlsCredentials(settings_for(made, "admin", Role.ADMIN, days=29)))
    async with (
        listening(settings_for(made, "good", Role.BOOKIE, days=29)) as good,
        listening(settings_for(made, "soon", Role.BOOKIE, days=3)) as soon,
        listening(settings_for(made, "ended", Role.BOOKIE, days=-0.01)) as ended,
        listening(settings_for(other, "foreign", Role.BOOKIE)) as foreign,
    ):
        names = {good: "good", soon: "soon", ended: "ended", foreign: "foreign"}
        found = {one.subject: one for one in await check_security(own, names)}
    assert {subject: one.verdict for subject, one in found.items()} == {
        "own certificate": OK,
        "tls good": OK,
        "tls soon": WARNING,
        "tls ended": FAULT,
        "tls foreign": FAULT,
    }
    assert "spiffe://test/bookie/good; certificate expires" in found["tls good"].detail
    assert found["tls soon"].detail.endswith("in 2 days")
    assert "certificate has expired" in found["tls ended"].detail


async def test_a_port_without_tls_is_a_fault(tmp_path: Path) -> None:
    own = Protection(TlsCredentials(settings_for(authority(tmp_path), "admin", Role.ADMIN)))

    class Plain(asyncio.Protocol):
        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            self.transport = transport

        def data_received(self, data: bytes) -> None:
            self.transport.close()

    server = await asyncio.get_running_loop().create_server(Plain, HOST, 0)
    address = server.sockets[0].getsockname()
    *_, found = await check_security(own, {address: "bookie b1"})
    server.close()
    assert (found.subject, found.verdict) == ("tls bookie b1", FAULT)


async def test_without_tls_addresses_that_others_reach_are_named() -> None:
    (found,) = await check_security(UNPROTECTED, {("127.0.0.1", 3281): "bookie b1"})
    assert found.verdict == OK
    remote = {("10.0.0.7", 3281): "bookie b1", ("127.0.0.1", 8281): "status"}
    (found,) = await check_security(UNPROTECTED, remote)
    assert found.verdict == WARNING
    assert "1 address: bookie b1 at 10.0.0.7:3281" in found.detail


def test_ports_for_operators_are_checked_as_well() -> None:
    row = {"address": "p-1:4281", "roles": "write", "operator_address": "p-1:4291"}
    shared = {"address": "p-2:4281", "roles": "read", "operator_address": None}
    assert security_checks.listening([], [row, shared], [], None) == {
        ("p-1", 4281): "write proxy",
        ("p-1", 4291): "operators of write proxy",
        ("p-2", 4281): "read proxy",
    }


def test_secrets_that_others_can_read_are_named(tmp_path: Path) -> None:
    assert list(check_secret_files(Settings())) == []
    token, password = tmp_path / "token", tmp_path / "password"
    for file in (token, password):
        file.touch(0o600)
    settings = Settings(
        cluster=ClusterSettings(metadata=f"zk://host/?auth_file={password}"),
        security=SecuritySettings(token_file=str(token), ledger_secrets=str(token)),
    )
    (good,) = check_secret_files(settings)
    assert (good.verdict, good.detail) == (OK, "only those who need them read 2 files")
    token.chmod(0o644)
    password.unlink()
    (bad,) = check_secret_files(settings)
    assert bad.verdict == WARNING
    assert bad.detail == (
        f"other users can read {token} (mode 0644): chmod 600; "
        f"{password} cannot be examined: No such file or directory"
    )


def test_passwords_of_stores_that_are_sent_without_tls_are_named() -> None:
    def found(uri: str) -> list[str]:
        regional = (("east", "etcd://b:2379/east?auth_file=f"),)
        cluster = ClusterSettings(metadata=uri, regional_metadata=regional)
        return [one.detail for one in check_store_passwords(Settings(cluster=cluster))]

    regional = "the password of etcd://b:2379 is sent without TLS: set tls_ca"
    own = "the password of zk://a:2181,[::1]:2181 is sent without TLS: set tls_ca"
    assert found("zk://a:2181,[::1]:2181/c?auth_file=f") == [own, regional]
    assert found("zk://a:2181/c?auth_file=f&tls_ca=ca.pem") == [regional]
    assert found("etcd://a:2379/c?auth_file=f&tls=yes") == [regional]
    assert found("zk://localhost:2181,[::1]:2181/c?auth_file=f") == [regional]
    assert found("sqlite:///var/lib/metadata.db") == found("") == [regional]
