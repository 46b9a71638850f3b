"""Connections and calls end when the certificate of the client does; a renewed one goes on."""

import asyncio
import time
from pathlib import Path

import pytest

from rhumbline.client.connect import connect
from rhumbline.core.log.api.log_writer import LogWriter
from rhumbline.core.log.policy import StreamPolicy
from rhumbline.core.protocol.errors import UnauthorizedError
from rhumbline.core.protocol.quorum import Quorum
from rhumbline.core.protocol.start import EARLIEST
from rhumbline.proxies.rpc import identity_lifetime
from rhumbline.security.principal import Role
from rhumbline.security.settings import TlsSettings
from rhumbline.tests.support.security.attacks import Recorded
from rhumbline.tests.support.security.certificates import settings_for
from rhumbline.tests.support.security.secured_cluster import REGION, STREAM, Secured, secured
from rhumbline.tls.certificate import decode_pem

LIFETIME_S = 5
DAY_S = 86_400
DIRECT = "direct"


def short_lived(made: Secured) -> tuple[TlsSettings, float]:
    """Issue a certificate of a few seconds; return it and its end in s since the Unix epoch."""
    tls = settings_for(made.authority, "app", Role.CLIENT, days=LIFETIME_S / DAY_S)
    return tls, decode_pem(Path(tls.certificate).read_bytes()).not_after_ms / 1000


async def append_until(writer: LogWriter, end_s: float) -> list[bytes]:
    """Append one record after the other; return those that were acknowledged."""
    appended: list[bytes] = []
    while time.time() < end_s:
        payload = b"%d" % len(appended)
        await writer.append(payload)
        appended.append(payload)
        await asyncio.sleep(0.01)
    return appended


async def test_appends_go_on_over_the_end_of_a_certificate_that_was_renewed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(identity_lifetime, "CHECK_S", 0.2)
    audit = Recorded()
    async with asyncio.timeout(90), secured(tmp_path, audit=audit) as made:
        tls, ends_s = short_lived(made)
        async with (
            connect(f"grpc://{made.proxy.address}", tls=tls) as thin,
            connect(made.cluster.metadata_uri, region=REGION, tls=tls) as direct,
        ):
            await thin.namespace().create_stream(DIRECT, StreamPolicy(Quorum(3, 3, 2)))
            async with thin.writer(STREAM) as one, direct.writer(DIRECT) as two:
                await one.append(b"first")
                await two.append(b"first")
                settings_for(made.authority, "app", Role.CLIENT, days=1)
                assert time.time() < ends_s
                appended = await asyncio.gather(
                    append_until(one, ends_s + 2), append_until(two, ends_s + 2)
                )
            for stream, payloads in zip((STREAM, DIRECT), appended, strict=True):
                async with direct.reader(stream, EARLIEST) as reader:
                    found = [bytes((await anext(reader)).payload) for _ in range(len(payloads) + 1)]
                assert found == [b"first", *payloads]
    assert audit.counts["connect", "refused", "certificate-expired"] >= 3  # one of each bookie


async def test_a_call_ends_with_its_certificate_and_the_next_one_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(identity_lifetime, "CHECK_S", 0.2)
    audit = Recorded()
    async with asyncio.timeout(90), secured(tmp_path, audit=audit) as made:
        tls, ends_s = short_lived(made)
        async with connect(f"grpc://{made.proxy.address}", tls=tls) as thin:
            async with thin.reader(STREAM, EARLIEST) as reader:
                await thin.namespace().describe(STREAM)
                with pytest.raises(UnauthorizedError, match="has ended"):
                    await anext(reader)
            assert time.time() >= ends_s
            with pytest.raises(UnauthorizedError, match="has ended"):
                await thin.namespace().create_stream("late")
    assert audit.counts["CreateStream", "refused", "unauthorized"] >= 1
