"""Archives in an HDFS with Kerberos: holders of a key write and read them, others are refused."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest

from rhumbline.chaos.managed_process import bare_environment
from rhumbline.coldstore.stores.conformance import CHECKS
from rhumbline.tests.support.processes.process_cluster import ProcessCluster, refusal, rhumbline
from rhumbline.tests.support.servers.kerberos import Kdc
from rhumbline.tests.support.servers.metadata_servers import started
from rhumbline.tests.support.servers.secure_cold_servers import SecureHdfs

pytestmark = [
    pytest.mark.long,
    pytest.mark.needs_server("hdfs"),
    pytest.mark.timeout(600),
]

CHECK_ALL = """
import asyncio, sys
from rhumbline.coldstore.stores.conformance import CHECKS
from rhumbline.coldstore.stores.open_store import open_cold_store

async def main():
    for number, (name, check) in enumerate(CHECKS.items()):
        store = open_cold_store(sys.argv[1].replace("ROOT", f"check-{number}"))
        try:
            await check(store)
        finally:
            await store.close()
        print("kept", name)

asyncio.run(main())
"""

ASK = """
import requests
from rhumbline.coldstore.stores.kerberos import TicketAuth
from rhumbline.core.protocol.errors import RhumblineError

try:
    TicketAuth()(requests.Request("GET", "https://head/").prepare())
    print("ticket")
except RhumblineError as error:
    print(type(error).__name__, error)
"""


@pytest.fixture(scope="module")
def kdc() -> Iterator[Kdc]:
    server = started(Kdc)
    try:
        server.start()
        yield server
    finally:
        server.remove()


@pytest.fixture(scope="module")
def hdfs(kdc: Kdc) -> Iterator[SecureHdfs]:
    server = SecureHdfs(kdc)
    try:
        server.start()
        yield server
    finally:
        server.remove()


def uri_of(server: SecureHdfs) -> str:
    ca = quote(str(server.certificates.ca))
    return f"swebhdfs://{server.secure_address}/ROOT?ca={ca}&authentication=kerberos"


def output_of(code: str, *arguments: str, environ: dict[str, str]) -> str:
    """Run Python code in a process of its own, whose Kerberos libraries read the environment."""
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments],
        env={**bare_environment(), **environ},
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_kdc_that_does_not_answer_may_answer_later_but_a_refusal_is_final() -> None:
    kdc = started(Kdc)
    try:
        kdc.start()
        known = kdc.environment(kdc.keytab("known"))
        unknown = kdc.environment(kdc.keytab("gone"))
        kdc.delete("gone")
        late = kdc.environment(kdc.keytab("late"))
        assert output_of(ASK, environ=known) == "ticket\n"
        refused = output_of(ASK, environ=unknown)
        assert refused.startswith("UnauthorizedError no Kerberos ticket: "), refused
        assert "not found in Kerberos database" in refused
        nobody = output_of(ASK, environ=kdc.environment(None))
        assert nobody.startswith("UnauthorizedError no Kerberos ticket: "), nobody
        kdc.kill()
        assert output_of(ASK, environ=known) == "ticket\n", "it has one in its cache"
        silent = output_of(ASK, environ=late)
        assert silent.startswith("UnavailableError no Kerberos ticket: "), silent
        assert "Cannot contact any KDC" in silent
    finally:
        kdc.remove()


def test_the_store_keeps_every_check_with_a_keytab(kdc: Kdc, hdfs: SecureHdfs) -> None:
    environ = kdc.environment(kdc.keytab("checker"))
    assert output_of(CHECK_ALL, uri_of(hdfs), environ=environ).splitlines() == [
        f"kept {name}" for name in CHECKS
    ]


def test_an_archive_is_written_and_read_by_those_with_a_ticket_only(
    kdc: Kdc, hdfs: SecureHdfs, tmp_path: Path
) -> None:
    known = kdc.environment(kdc.keytab("archiver"))
    uri = uri_of(hdfs).replace("ROOT", "archives")

    def run(*arguments: str, stdin: bytes = b"") -> bytes:
        cold = {"RHUMBLINE_CLUSTER__COLD": uri}
        done = rhumbline(*arguments, *data.options(), stdin=stdin, environ={**known, **cold})
        assert done.returncode == 0, done.stderr.decode()
        return done.stdout

    with ProcessCluster(tmp_path / "cluster", ("a", "a", "a")) as data:
        data.run("stream", "create", "visits")
        data.run("stream", "append", "visits", stdin=b"one\ntwo\nthree\n")
        data.run("stream", "roll", "visits")
        run("archive", "run")
        verified = json.loads(run("archive", "verify", "--output", "json"))
        assert sum(row["records"] for row in verified) == 3
        assert {row["verdict"] for row in verified} == {"ok"}
        run("archive", "restore", "visits", "--as", "again")
        assert run("stream", "read", "again").splitlines() == [
            b"one", b"two", b"three"
        ]  # fmt: skip
        options = ("archive", "verify", *data.options())
        simple = uri.replace("authentication=kerberos", "user=archiver")
        for cold, environ, reason in (
            (uri, kdc.environment(None), "no Kerberos ticket"),
            (simple, known, "Authentication failure"),
        ):
            settings = {**environ, "RHUMBLINE_CLUSTER__COLD": cold}
            _, text = refusal(*options, environ=settings)
            assert reason in text
