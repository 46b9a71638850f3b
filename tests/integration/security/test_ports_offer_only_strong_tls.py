"""Every port with TLS, seen by openssl and by sslyze, which know nothing of Rhumbline."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

import pytest

from rhumbline.chaos.lab.ports import free_port
from rhumbline.proxies.config import ProxyConfig
from rhumbline.tests.support.security.secured_cluster import Secured, secured
from rhumbline.tests.support.security.tls_scan import s_client, scan, start_tls_relay
from rhumbline.tests.support.servers import installs
from rhumbline.tests.support.servers.metadata_servers import started

REFUSED_CIPHERS = (
    "ECDHE-ECDSA-AES128-SHA", "ECDHE-ECDSA-AES256-SHA384", "ECDHE-ECDSA-AES128-SHA256",
    "AES128-SHA", "AES128-GCM-SHA256", "DHE-RSA-AES128-GCM-SHA256", "ADH-AES128-SHA", "NULL-SHA256",
)  # fmt: skip
STRONG_1_2 = {
    "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256",
    "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384",
    "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256",
}
STRONG_1_3 = {"TLS_AES_128_GCM_SHA256", "TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256"}
RENEGOTIATION_ENDS = ("no renegotiation", "unexpected eof", "unexpected record")
"""What openssl reports of a server that declines, or closes the connection, as gRPC does.

A record is unexpected if gRPC sent it before it knew of the renegotiation.
"""
RESUMPTION = {"session ids", "session tickets"}
"""Sessions of TLS 1.2 may be resumed: the standard library cannot turn its session cache off."""
OPEN = "status"
"""Beginning of the names of ports that also serve clients without a certificate."""


def with_all_ports(directory: Path) -> AbstractAsyncContextManager[Secured]:
    """Run a cluster whose proxy has a port for operators."""
    return secured(directory, proxy=ProxyConfig(operator_port=free_port()))


@asynccontextmanager
async def ports_of(made: Secured) -> AsyncIterator[dict[str, int]]:
    """Yield one port of each kind by name."""
    bookie = made.cluster.bookies[0].bookie
    assert bookie is not None
    async with start_tls_relay(bookie.port) as relay:
        yield {
            "bookie": bookie.port,
            "bookie after START_TLS": relay,
            "proxy": int(made.proxy.address.rpartition(":")[2]),
            "operators of a proxy": int(made.proxy.operator_address.rpartition(":")[2]),
            "status of a bookie": made.status_addresses[0][1],
            "status of a proxy": made.status_addresses[-1][1],
        }


async def test_openssl_connects_with_tls_1_2_and_1_3_and_no_older_version(tmp_path: Path) -> None:
    async with asyncio.timeout(90), with_all_ports(tmp_path) as made, ports_of(made) as ports:
        tls = made.client_tls
        own = ("-cert", tls.certificate, "-key", tls.key)
        for name, port in ports.items():
            for version in ("-tls1_2", "-tls1_3"):
                printed = await s_client(port, tls, version, *own, "-verify_return_error")
                assert "Verify return code: 0 (ok)" in printed, (name, printed)
                assert "Compression: NONE" in printed, (name, printed)
            for version in ("-tls1", "-tls1_1"):
                old = await s_client(port, tls, version, "-cipher", "ALL:@SECLEVEL=0", *own)
                assert "Cipher is (NONE)" in old, (name, old)


async def test_openssl_cannot_choose_a_weak_cipher(tmp_path: Path) -> None:
    async with asyncio.timeout(90), with_all_ports(tmp_path) as made, ports_of(made) as ports:
        tls = made.client_tls
        weak = ("-tls1_2", "-cipher", f"{':'.join(REFUSED_CIPHERS)}:@SECLEVEL=0")
        for name, port in ports.items():
            printed = await s_client(port, tls, *weak, "-cert", tls.certificate, "-key", tls.key)
            assert "Cipher is (NONE)" in printed, (name, printed)


async def test_openssl_cannot_renegotiate_and_needs_a_certificate(tmp_path: Path) -> None:
    async with asyncio.timeout(90), with_all_ports(tmp_path) as made, ports_of(made) as ports:
        tls = made.client_tls
        for name, port in ports.items():
            again = await s_client(
                port, tls, "-tls1_2", "-cert", tls.certificate, "-key", tls.key, sends=b"R\n"
            )
            assert "RENEGOTIATING" in again, (name, again)
            assert any(end in again for end in RENEGOTIATION_ENDS), (name, again)
            if name.startswith(OPEN):
                assert "Verification: OK" in await s_client(port, tls, "-brief", sends=b"Q\n")
                continue
            for version in ("-tls1_2", "-tls1_3"):
                without = await s_client(port, tls, version, "-ign_eof")  # until the server closes
                assert "Verification: OK" in without, (name, without)


@pytest.mark.long
async def test_sslyze_finds_no_weakness_at_any_port(tmp_path: Path) -> None:
    started(installs.sslyze_python)
    async with asyncio.timeout(280), with_all_ports(tmp_path) as made, ports_of(made) as ports:
        for name, port in ports.items():
            found = await scan(port, made.client_tls)
            print(f"{name}: {found}")
            assert found.ciphers.keys() == {"tls_1_2", "tls_1_3"}, name
            assert set(found.ciphers["tls_1_2"]) <= STRONG_1_2, (name, found)
            assert set(found.ciphers["tls_1_3"]) <= STRONG_1_3, (name, found)
            assert set(found.weaknesses) <= RESUMPTION, name
