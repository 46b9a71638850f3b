"""Cold stores over https, whose servers an authority of one's own has signed."""

import asyncio
import functools
from urllib.parse import quote

import pytest

from rhumbline.coldstore.stores.conformance import CHECKS
from rhumbline.coldstore.stores.open_store import open_cold_store
from rhumbline.core.protocol.errors import UnavailableError
from rhumbline.tests.support.servers.metadata_servers import started
from rhumbline.tests.support.servers.secure_cold_servers import SecureHdfs, SecureS3


@functools.cache
def s3() -> SecureS3:
    server = SecureS3()
    server.start()
    return server


@functools.cache
def hdfs() -> SecureHdfs:
    server = SecureHdfs()
    server.start()
    return server


def check_all(uri: str) -> None:
    """Run all checks of the conformance kit, each below a directory of its own."""

    async def main() -> None:
        for number, check in enumerate(CHECKS.values()):
            store = open_cold_store(uri.replace("ROOT", f"check-{number}"))
            try:
                await check(store)
            finally:
                await store.close()

    asyncio.run(main())


def refused_without_authority(uri: str) -> None:
    """Check that a server whose authority is not known gets no request."""

    async def main() -> None:
        store = open_cold_store(uri)
        try:
            with pytest.raises(UnavailableError, match=r"(?i)certificate verify failed"):
                await store.get("a")
        finally:
            await store.close()

    asyncio.run(main())


@pytest.mark.needs_server("s3")
def test_s3_over_https_is_verified_by_an_own_authority(monkeypatch: pytest.MonkeyPatch) -> None:
    server = started(s3)
    monkeypatch.setenv("RHUMBLINE_S3_ACCESS_KEY", server.access_key)
    monkeypatch.setenv("RHUMBLINE_S3_SECRET_KEY", server.secret_key)
    uri = f"s3://{server.bucket}/ROOT?endpoint=https://{server.address}"
    check_all(f"{uri}&ca={quote(str(server.certificates.ca))}")
    refused_without_authority(uri)
    refused_without_authority(f"{uri}&ca={quote(str(server.certificates.other_ca))}")
    monkeypatch.setenv("RHUMBLINE_S3_CA", str(server.certificates.ca))
    check_all(uri.replace("ROOT", "again/ROOT"))


@pytest.mark.long
@pytest.mark.needs_server("hdfs")
def test_hdfs_over_https_is_verified_by_an_own_authority(monkeypatch: pytest.MonkeyPatch) -> None:
    server = started(hdfs)
    uri = f"swebhdfs://{server.secure_address}/ROOT?user={server.user}"
    check_all(f"{uri}&ca={quote(str(server.certificates.ca))}")
    refused_without_authority(uri)
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(server.certificates.ca))
    refused_without_authority(f"{uri}&ca={quote(str(server.certificates.other_ca))}")
