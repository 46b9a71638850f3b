"""The port for operators has the TLS, the identities and the audit log of the one for clients."""

import asyncio
import json
from pathlib import Path

import pytest

from rhumbline.access.audit_log import AuditLog
from rhumbline.access.token_source import token_source
from rhumbline.chaos.lab.ports import free_port
from rhumbline.core.protocol.errors import UnauthorizedError, UnavailableError, WrongPortError
from rhumbline.proxies.config import ProxyConfig
from rhumbline.proxies.rpc import methods
from rhumbline.proxies.rpc import rhumbline_pb2 as pb
from rhumbline.proxies.rpc.grpc_calls import GrpcTransport
from rhumbline.security.audit_settings import AuditSettings
from rhumbline.security.settings import SecuritySettings
from rhumbline.security.token_claims import static_token_line
from rhumbline.tests.support.security.secured_cluster import NAMESPACE, STREAM, secured

SEAL = pb.SealStreamRequest(namespace=NAMESPACE, stream=STREAM)


async def test_callers_are_identified_and_recorded_at_both_ports(tmp_path: Path) -> None:
    tokens, path = tmp_path / "tokens", tmp_path / "audit.jsonl"
    tokens.write_text(static_token_line("operator", "s3cret", []))
    audit = AuditLog(AuditSettings(file=str(path)), "test")
    config = ProxyConfig(operator_port=free_port())
    security = SecuritySettings(static_tokens=str(tokens))
    async with (
        asyncio.timeout(60),
        secured(tmp_path, security, audit=audit, proxy=config) as made,
    ):
        clients, operators = made.proxy.address, made.proxy.operator_address
        assert operators == f"127.0.0.1:{config.operator_port}"
        known = GrpcTransport(made.credentials, token_source("s3cret"))
        wrong = GrpcTransport(made.credentials, token_source("wrong"))
        plain = GrpcTransport()
        for address in (clients, operators):
            with pytest.raises(UnauthorizedError):
                await wrong.call_unary(address, methods.SEAL_STREAM, SEAL, 5.0)
            with pytest.raises(UnavailableError):
                await plain.call_unary(address, methods.SEAL_STREAM, SEAL, 5.0)
        with pytest.raises(WrongPortError) as refused:
            await known.call_unary(clients, methods.SEAL_STREAM, SEAL, 5.0)
        assert refused.value.address == operators
        await known.call_unary(operators, methods.SEAL_STREAM, SEAL, 5.0)
        for calls in (known, wrong, plain):
            await calls.aclose()
    audit.close()
    found = [json.loads(line) for line in path.read_text().splitlines()]
    sealed = [line for line in found if line["action"] == "SealStream"]
    by_operator = [
        (line["result"], line["error"]) for line in sealed if line["principal"] == "operator"
    ]
    assert by_operator == [("refused", "wrong-port"), ("done", "")]
    unknown = [line for line in sealed if line["error"] == "unauthorized"]
    assert sum(line["count"] for line in unknown) == 2
