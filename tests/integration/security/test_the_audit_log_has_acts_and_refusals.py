"""The audit log of a real cluster: acts and refusals are in it, and secrets are not."""

import asyncio
import json
import logging
from contextlib import suppress
from io import StringIO
from pathlib import Path
from typing import Any

from rhumbline.access.audit_log import AuditLog
from rhumbline.access.token_source import token_source
from rhumbline.client.connect import connect
from rhumbline.core.protocol.errors import RhumblineError
from rhumbline.proxies.rpc import methods
from rhumbline.proxies.rpc import rhumbline_pb2 as pb
from rhumbline.proxies.rpc.grpc_calls import GrpcTransport
from rhumbline.security.audit_settings import AuditSettings
from rhumbline.security.settings import SecuritySettings, TlsSettings
from rhumbline.security.token_claims import static_token_line
from rhumbline.server.process_log import ProcessLog
from rhumbline.server.status_server import fetch_status
from rhumbline.tests.support.security.secured_cluster import NAMESPACE, STREAM, Secured, secured
from rhumbline.tls.authority import SERVER_NAME
from rhumbline.tls.credentials import TlsCredentials

TOKEN, WRONG, PAYLOAD = "planted-token", "planted-wrong-token", b"planted-payload"


def security_of(directory: Path) -> SecuritySettings:
    """Accept one token, and give the proxy one of its own."""
    own, tokens = directory / "own", directory / "tokens"
    own.write_text("planted-token-of-the-proxy")
    lines = [static_token_line("app", TOKEN, []), static_token_line("proxy", own.read_text(), [])]
    tokens.write_text("\n".join(lines))
    return SecuritySettings(
        static_tokens=str(tokens), token_file=str(own), bookie_clients="internal"
    )


async def use_and_misuse(made: Secured) -> None:
    """Act with a valid token, and try what is refused at each port."""
    stranger = TlsSettings(ca=str(made.authority.certificate_file), server_name=SERVER_NAME)
    credentials = TlsCredentials(stranger)
    async with connect(f"grpc://{made.proxy.address}", tls=stranger, token=TOKEN) as thin:
        async with thin.writer(STREAM) as writer:
            await writer.append(PAYLOAD)
        await thin.namespace().create_stream("extra")
    calls = GrpcTransport(credentials, token_source(WRONG))
    for _ in range(20):
        try:
            request = pb.DeleteStreamRequest(namespace=NAMESPACE, stream=STREAM)
            await calls.call_unary(made.proxy.address, methods.DELETE_STREAM, request, 5.0)
        except RhumblineError:
            continue
        raise AssertionError("a wrong token was accepted")
    await calls.aclose()
    await fetch_status(
        *made.status_addresses[0], "/stat", timeout_ms=5_000, credentials=credentials
    )
    bookie = made.cluster.bookies[0].bookie
    assert bookie is not None
    for greeting in (b"\x00\x00\x00\x04\x02\x01\x00\x00", b"\x16\x03\x01" + PAYLOAD):
        reader, connection = await asyncio.open_connection("127.0.0.1", bookie.port)
        connection.write(greeting * 10)
        with suppress(ConnectionError):
            await reader.read()
        connection.close()


async def test_acts_and_refusals_are_recorded_and_secrets_are_nowhere(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    audit = AuditLog(AuditSettings(file=str(path)), "test")
    text = StringIO()
    log = ProcessLog("test", text)
    log.configure("debug", "json")
    with log.installed():
        async with (
            asyncio.timeout(60),
            secured(
                tmp_path, security_of(tmp_path), audit=audit, proxy_client_certificates=False
            ) as made,
        ):
            await use_and_misuse(made)
    audit.close()
    log.configure("error")
    logging.getLogger("rhumbline").setLevel(logging.NOTSET)
    found: list[dict[str, Any]] = [json.loads(line) for line in path.read_text().splitlines()]
    by_act = {(line["action"], line["result"], line["error"]): line for line in found}
    created = by_act["CreateStream", "done", ""]
    assert (created["principal"], created["resource"]) == ("app", f"stream:{NAMESPACE}/extra")
    assert created["request_id"] and created["peer"].startswith("127.0.0.1:")
    refused = [line for line in found if line["action"] == "DeleteStream"]
    assert {line["error"] for line in refused} == {"unauthorized"}
    assert sum(line["count"] for line in refused) == 20
    assert ("status", "refused", "no-certificate") in by_act
    assert ("connect", "refused", "tls-required") in by_act
    assert ("connect", "refused", "no-handshake") in by_act
    key = made.key_line
    everything = path.read_text() + text.getvalue()
    assert len(text.getvalue()) > 1_000, "the log was not recorded"
    for secret in ("planted", key):
        assert secret not in everything
