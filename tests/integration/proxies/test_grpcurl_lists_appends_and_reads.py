"""A foreign gRPC client without the .proto files: grpcurl lists, appends and reads by
reflection."""

import base64
import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from rhumbline.core.protocol.record_set import decode_entry
from rhumbline.tests.support.processes.process_cluster import ProcessCluster
from rhumbline.tests.support.processes.proxy_processes import ClusterProxy
from rhumbline.tests.support.servers import installs

SERVICE = "rhumbline.v1.Rhumbline"
STREAM = {"namespace": "default", "stream": "orders"}

pytestmark = [pytest.mark.needs_server("grpcurl"), pytest.mark.timeout(400)]


@pytest.fixture(scope="module")
def grpcurl() -> Path:
    try:
        return installs.grpcurl_binary()
    except installs.NotInstalledError as error:
        pytest.skip(str(error))


@pytest.fixture
def proxy(tmp_path: Path) -> Iterator[ClusterProxy]:
    with (
        ProcessCluster(tmp_path / "cluster", ("a", "a", "a")) as cluster,
        ClusterProxy(cluster, "write-proxy", "both", "--with-read") as proxy,
    ):
        yield proxy


class Caller:
    """Runs grpcurl with requests and responses as JSON."""

    def __init__(self, binary: Path, address: str) -> None:
        self._command = [str(binary), "-plaintext", "-max-time", "30", "-d", "@", address]
        self._reflection_command = [str(binary), "-plaintext", address]

    def reflect(self, *arguments: str) -> str:
        """Run `list` or `describe` with reflection."""
        completed = subprocess.run(
            [*self._reflection_command, *arguments],
            capture_output=True,
            timeout=60,
            check=True,
            text=True,
        )
        return completed.stdout

    def call(self, method: str, *requests: dict[str, Any]) -> list[dict[str, Any]]:
        """Return all responses. Raises CalledProcessError for a status other than OK."""
        completed = subprocess.run(
            [*self._command, f"{SERVICE}/{method}"],
            input="\n".join(map(json.dumps, requests)),
            capture_output=True,
            timeout=60,
            check=True,
            text=True,
        )
        found, decoder, text = [], json.JSONDecoder(), completed.stdout.strip()
        while text:
            answer, end = decoder.raw_decode(text)
            found.append(answer)
            text = text[end:].lstrip()
        return found


def test_grpcurl_lists_appends_and_reads(grpcurl: Path, proxy: ClusterProxy) -> None:
    caller = Caller(grpcurl, proxy.address)
    assert {SERVICE, "grpc.health.v1.Health"} <= set(caller.reflect("list").split())
    assert "rpc Append ( stream .rhumbline.v1.AppendRequest )" in caller.reflect(
        "describe", SERVICE
    )

    caller.call("CreateStream", STREAM)
    assert caller.call("ListStreams", {"namespace": "default"}) == [{"streams": ["orders"]}]

    payloads = [b"one", b"two", b"three"]
    item = {
        **STREAM,
        "id": 1,
        "payloads": [base64.b64encode(payload).decode() for payload in payloads],
    }
    (response,) = caller.call("Append", {"items": [item]})
    (answer,) = response["answers"]
    assert (answer["record_counts"], answer["regions"]) == ([3], ["a"])

    responses = caller.call("Read", {**STREAM, "earliest": True, "stopsAtEnd": True})
    assert "start" in responses[0]
    entries = [base64.b64decode(e) for r in responses[1:] for e in r.get("entries", ())]
    sets = [record_set for entry in entries for record_set in decode_entry(entry)]
    assert [p for s in sets if not s.is_control for p in s.payloads()] == payloads

    with pytest.raises(subprocess.CalledProcessError) as refused:
        caller.call("DescribeStream", {**STREAM, "stream": "nothing"})
    assert "NotFound" in refused.value.stderr and '"code": "no-such-stream"' in refused.value.stderr
