"""A query with TLS and a token works, and Spark shows neither token nor key anywhere."""

import asyncio
import json
import os
import sys
from pathlib import Path

import pytest

from rhumbline.chaos.managed_process import ManagedProcess, python_command
from rhumbline.security.settings import SecuritySettings
from rhumbline.security.token_claims import static_token_line
from rhumbline.tests.support.security.secured_cluster import STREAM, secured
from rhumbline.tls.authority import SERVER_NAME

TOKEN = "a-token-that-nobody-may-see"


@pytest.mark.long
@pytest.mark.timeout(400)
async def test_plans_ui_and_logs_hold_no_secret(tmp_path: Path) -> None:
    tokens, own = tmp_path / "tokens", tmp_path / "own-token"
    own.write_text("of-the-proxy")
    lines = [static_token_line("proxy", "of-the-proxy", []), static_token_line("app", TOKEN, [])]
    tokens.write_text("\n".join(lines))
    file = tmp_path / "token"
    file.write_text(TOKEN)
    events = tmp_path / "events"
    events.mkdir()
    security = SecuritySettings(static_tokens=str(tokens), token_file=str(own))
    async with (
        asyncio.timeout(350),
        secured(tmp_path, security, proxy_client_certificates=False) as made,
    ):
        options = {
            "tlsCa": str(made.authority.certificate_file),
            "tlsServerName": SERVER_NAME,
            "tokenFile": str(file),
        }
        driver = ManagedProcess(
            "driver",
            python_command(
                "tests.integration.spark.secure_driver",
                f"grpc://{made.proxy.address}", STREAM, json.dumps(options), str(events),
            ),
            tmp_path / "driver.log",
            environ={**os.environ, "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"},
        )  # fmt: skip
        driver.launch()
        code = await asyncio.to_thread(driver.wait, 300)
        printed = driver.log.read_text(errors="replace")
        assert code == 0, printed[-5000:]
    assert "rows 100" in printed
    assert "Physical Plan" in printed and "page /environment" in printed
    logs = [path.read_bytes() for path in events.rglob("*") if path.is_file()]
    assert any(b"SparkListenerSQLExecutionStart" in log for log in logs)
    for text in (printed.encode(), *logs):
        assert TOKEN.encode() not in text
        assert b"PRIVATE KEY" not in text
