"""An empty list says what was asked for, and nothing about what was not."""

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from rhumbline.backends.open_store import open_store
from rhumbline.cli.main import main
from rhumbline.cli.operate.protection import quota
from rhumbline.cli.overview.status_documents import NO_STATUS, StatusDocument
from rhumbline.proxies.membership import ROOT, WRITE
from rhumbline.proxies.registration import ProxyMember
from rhumbline.server.server_directory import ROOT as SERVERS
from rhumbline.server.server_directory import ServerRecord


@pytest.fixture
def uri(tmp_path: Path) -> str:
    found = f"sqlite://{tmp_path}/metadata.db"
    run(found, "cluster init")
    run(found, "namespace create default --quorum 1/1/1")
    return found


def run(uri: str, command: str) -> str:
    result = CliRunner().invoke(main, [*command.split(), "-u", uri])
    assert result.exit_code == 0, result.output
    return result.output.strip()


@pytest.mark.parametrize(
    ("command", "shown"),
    [
        ("stream ls", "no stream in namespace default"),
        ("stream ls a", "no stream in namespace default begins with a"),
        ("topic ls", "no topic in namespace default"),
        ("topic ls a", "no topic in namespace default begins with a"),
        ("access ls", "no grants"),
        ("access ls --principal ann", "no grant applies to principal ann"),
        ("proxy ls", "no proxy is up"),
        ("proxy ls --role read", "no read proxy is up"),
        (
            "proxy assignments",
            "no stream is pinned or moved in the metadata store of namespace default",
        ),
        ("quota usage", "no proxy is up"),
    ],
)
def test_an_empty_list_names_its_condition(uri: str, command: str, shown: str) -> None:
    assert run(uri, command) == shown


async def register(uri: str, *names: str) -> None:
    """Register write proxies whose status servers do not exist."""
    store = await open_store(uri)
    for name in names:
        member = ProxyMember(name, f"{name}:1", "eu", True)
        await store.create(f"{ROOT}/{WRITE}/{name}", member.encode())
        server = ServerRecord("write-proxy", f"{name}:1", "", "eu")
        await store.create(f"{SERVERS}/{name}", server.encode())
    await store.close()


def test_the_usage_of_silent_proxies_is_not_zero(uri: str, monkeypatch: pytest.MonkeyPatch) -> None:
    asyncio.run(register(uri, "a", "b"))
    assert run(uri, "quota usage") == "no proxy responds"
    responses: dict[str, StatusDocument] = {}

    async def respond(addresses: Mapping[str, Any]) -> dict[str, StatusDocument]:
        return {address: responses.get(address, NO_STATUS) for address in addresses}

    monkeypatch.setattr(quota, "read_statuses", respond)
    responses["a:1"] = StatusDocument({}, None)
    silent = "not included: 1 proxy that does not respond"
    assert run(uri, "quota usage").splitlines() == [
        "no proxy that responds has served anything",
        silent,
    ]
    served = {"quotas": {"principals": {"ann": {"append_records": 7}}}}
    responses["a:1"] = StatusDocument(served, None)
    table = run(uri, "quota usage").splitlines()
    assert table[-1] == silent and "principal:ann" in table[-2]
    responses |= {"a:1": StatusDocument({}, None), "b:1": StatusDocument({}, None)}
    assert run(uri, "quota usage") == "no proxy has served anything"
