"""Tests of mutual TLS with a FoundationDB cluster; skipped without FoundationDB.

Each client is a process of its own, since a process has one set of TLS files for FoundationDB.
"""

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from rhumbline.chaos.managed_process import bare_environment
from rhumbline.tests.support.servers import metadata_servers
from rhumbline.tests.support.servers.certificates import Certificates, Pair, certificates
from rhumbline.tests.support.servers.fdb_servers import FdbCluster
from rhumbline.tests.support.servers.store_locations import unique_name
from rhumbline.tests.support.tidy.doc_blocks import blocks

GUIDE = Path(__file__).parents[3] / "docs/how-to/choose-a-metadata-store.md"
USED_MS = 30_000
REFUSED_MS = 3_000
TIMED_OUT = "metadata-unavailable"


@pytest.fixture(scope="module")
def certs(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return certificates(tmp_path_factory.mktemp("fdb-tls") / "made")


@pytest.fixture(scope="module")
def secure(certs: Certificates) -> Iterator[FdbCluster]:
    """A cluster that accepts only clients with a certificate of its authority."""
    cluster = metadata_servers.started(lambda: FdbCluster(tls=certs))
    cluster.start()
    yield cluster
    cluster.remove()


@pytest.fixture(scope="module")
def plain() -> Iterator[FdbCluster]:
    cluster = metadata_servers.started(FdbCluster)
    cluster.start()
    yield cluster
    cluster.remove()


def use(uri: str, timeout_ms: int, **environ: str) -> str:
    """Return what a client process reports."""
    command = [sys.executable, "-m", "rhumbline.tests.support.processes.store_user"]
    done = subprocess.run(
        [*command, uri, str(timeout_ms)],
        capture_output=True,
        timeout=120,
        check=False,
        text=True,
        env={**bare_environment(), **environ},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def documented(cluster: FdbCluster, certs: Certificates) -> str:
    """Return the guide's URI of FoundationDB with TLS, with this cluster and these files in it."""
    shown = [line for block in blocks(GUIDE.read_text()) for line in block.text.splitlines()]
    (uri,) = [line for line in shown if line.startswith("fdb://") and "tls_cert" in line]
    client = certs.client
    files = {"tls_ca": certs.ca, "tls_cert": client.cert, "tls_key": client.key}
    for name, file in files.items():
        uri = re.sub(rf"{name}=[^&]+", f"{name}={file}", uri)
    uri = re.sub(r"fdb://[^?]+", f"fdb://{cluster.file}", uri)
    assert "/etc/" not in uri
    return uri


def tls(cluster: FdbCluster, ca: Path, pair: Pair) -> str:
    uri = cluster.uri(unique_name())
    return f"{uri}&tls_ca={ca}&tls_cert={pair.cert}&tls_key={pair.key}"


def test_fdb_with_server_and_client_certificates(secure: FdbCluster, certs: Certificates) -> None:
    assert use(documented(secure, certs), USED_MS) == "used"


def test_fdb_with_certificates_in_the_environment(secure: FdbCluster, certs: Certificates) -> None:
    files = {
        "FDB_TLS_CA_FILE": str(certs.ca),
        "FDB_TLS_CERTIFICATE_FILE": str(certs.client.cert),
        "FDB_TLS_KEY_FILE": str(certs.client.key),
    }
    assert use(secure.uri(unique_name()), USED_MS, **files) == "used"


def test_fdb_refuses_strangers(secure: FdbCluster, certs: Certificates) -> None:
    for stranger in (
        tls(secure, certs.other_ca, certs.client),  # not the server's authority
        tls(secure, certs.ca, certs.stranger),
    ):
        assert use(stranger, REFUSED_MS).startswith(TIMED_OUT)


def test_a_client_of_fdb_without_certificates_is_told_about_tls(secure: FdbCluster) -> None:
    report = use(secure.uri(unique_name()), REFUSED_MS)
    assert report.startswith(TIMED_OUT)
    assert "says :tls, but this process has no certificate" in report
    assert "b'" not in report


def test_a_client_of_fdb_with_certificates_and_a_plain_cluster_file_is_told_about_tls(
    secure: FdbCluster, plain: FdbCluster, certs: Certificates, tmp_path: Path
) -> None:
    """A plain cluster serves such a client; with a TLS cluster the file lacks :tls."""
    assert use(tls(plain, certs.ca, certs.client), USED_MS) == "used"
    file = tmp_path / "fdb.cluster"
    file.write_text(secure.file.read_text().replace(":tls", ""))
    wrong = tls(secure, certs.ca, certs.client).replace(str(secure.file), str(file))
    report = use(wrong, REFUSED_MS)
    assert report.startswith(TIMED_OUT)
    assert "do not end with :tls" in report
