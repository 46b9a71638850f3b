"""Scans of TLS ports by sslyze and by openssl, and a relay for ports that begin without TLS."""

import asyncio
import json
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

from rhumbline.core.runtime.tasks import Tasks
from rhumbline.core.wire import v3
from rhumbline.core.wire.frames import FrameSplitter
from rhumbline.security.settings import TlsSettings
from rhumbline.tests.support.servers import installs

HOST = "127.0.0.1"
_VERSIONS = ("ssl_2_0", "ssl_3_0", "tls_1_0", "tls_1_1", "tls_1_2", "tls_1_3")
_COMMANDS = (
    "sslv2", "sslv3", "tlsv1", "tlsv1_1", "tlsv1_2", "tlsv1_3", "compression",
    "fallback", "heartbleed", "openssl_ccs", "reneg", "resum", "robot",
)  # fmt: skip
_SCAN_S_MAX = 120.0
_CHUNK = 1 << 16


class PortScan(NamedTuple):
    """The findings of sslyze about one port."""

    ciphers: dict[str, list[str]]
    """Accepted cipher suites by version of the protocol, without versions that are refused."""
    weaknesses: list[str]
    """Names of what the port should not do."""


async def scan(port: int, tls: TlsSettings) -> PortScan:
    """Scan a port with the certificate of ``tls``. Raises LookupError if a check has failed."""
    with TemporaryDirectory() as folder:
        report = Path(folder) / "report.json"
        command = [
            str(await asyncio.to_thread(installs.sslyze_python)), "-m", "sslyze",
            *(f"--{name}" for name in _COMMANDS), "--mozilla_config", "disable",
            "--cert", tls.certificate, "--key", tls.key,
            "--json_out", str(report), "--quiet", f"{HOST}:{port}",
        ]  # fmt: skip
        process = await asyncio.create_subprocess_exec(
            *command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
        )
        try:
            async with asyncio.timeout(_SCAN_S_MAX):
                printed, _ = await process.communicate()
        finally:
            with suppress(ProcessLookupError):
                process.kill()
        if not report.exists():
            raise LookupError(printed.decode(errors="replace"))
        return _found(json.loads(report.read_text())["server_scan_results"][0])


def _found(report: dict[str, Any]) -> PortScan:
    results = report["scan_result"]
    if not results:
        raise LookupError(f"sslyze could not connect: {report['connectivity_error_trace']}")

    def result(check: str) -> dict[str, Any]:
        one: dict[str, Any] = results[check]
        if one["status"] != "COMPLETED":
            raise LookupError(f"{check}: {one['status']}: {one['error_trace']}")
        found: dict[str, Any] = one["result"]
        return found

    ciphers = {
        version: sorted(one["cipher_suite"]["name"] for one in accepted)
        for version in _VERSIONS
        if (accepted := result(f"{version}_cipher_suites")["accepted_cipher_suites"])
    }
    resumption = result("session_resumption")
    weaknesses = {
        "compression": result("tls_compression")["supports_compression"],
        "no fallback SCSV": not result("tls_fallback_scsv")["supports_fallback_scsv"],
        "heartbleed": result("heartbleed")["is_vulnerable_to_heartbleed"],
        "CCS injection": result("openssl_ccs_injection")["is_vulnerable_to_ccs_injection"],
        "renegotiation": result("session_renegotiation")[
            "is_vulnerable_to_client_renegotiation_dos"
        ],
        "robot": "NOT_VULNERABLE" not in result("robot")["robot_result"],
        "session ids": resumption["session_id_resumption_result"] == "FULLY_SUPPORTED",
        "session tickets": resumption["tls_ticket_resumption_result"] == "FULLY_SUPPORTED",
    }
    return PortScan(
        ciphers,
        [name for name, is_weak in weaknesses.items() if is_weak],
    )


async def s_client(port: int, tls: TlsSettings, *options: str, sends: bytes = b"") -> str:
    """Return what ``openssl s_client`` prints; without ``-cert`` in the options it has none."""
    process = await asyncio.create_subprocess_exec(
        "openssl", "s_client", "-connect", f"{HOST}:{port}", "-CAfile", tls.ca, "-alpn", "h2",
        *options,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip
    try:
        async with asyncio.timeout(20):
            printed, _ = await process.communicate(sends)
    finally:
        with suppress(ProcessLookupError):
            process.kill()
    return printed.decode(errors="replace")


@asynccontextmanager
async def start_tls_relay(bookie: int) -> AsyncIterator[int]:
    """Yield a port whose connections reach the port of a bookie after START_TLS.

    A scanner that knows only TLS from the first byte then sees the upgraded connection.
    """

    tasks = Tasks(on_failure=lambda _: None)  # a scanner ends its connections in every way

    async def relay(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            to, out = await asyncio.open_connection(HOST, bookie)
            try:
                out.write(v3.frame(v3.start_tls_request(1)))
                splitter = FrameSplitter(1024)
                while not (frames := splitter.feed(await to.read(_CHUNK))):
                    pass
                assert v3.status_of(v3.decode_response(frames[0])) == v3.Status.OK
                await asyncio.gather(_pump(reader, out), _pump(to, writer))
            finally:
                await _closed(out)
        finally:
            await _closed(writer)

    server = await asyncio.start_server(lambda r, w: tasks.spawn(relay(r, w), "relay"), HOST, 0)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        await tasks.aclose()


async def _closed(writer: asyncio.StreamWriter) -> None:
    writer.close()
    with suppress(ConnectionError):
        await writer.wait_closed()


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(ConnectionError):
        while data := await reader.read(_CHUNK):
            writer.write(data)
            await writer.drain()
    writer.close()
