"""Tests of store URIs and of the messages about malformed ones."""

import asyncio
import builtins
import sys

import pytest

from rhumbline.backends.open_store import open_store
from rhumbline.backends.uri import Host, parse_uri
from rhumbline.core.protocol.errors import ConfigurationError


@pytest.mark.parametrize(
    ("uri", "message"),
    [
        ("", "no scheme"),
        ("/var/lib/x", "no scheme"),
        ("consul://h/x", "unknown scheme 'consul' (known: memory, sqlite, zk, etcd, fdb)"),
        ("memory://h/x", "memory: or memory:name"),
        ("memory:?a=1", "unknown option 'a' (this store has no options)"),
        ("zk://user:secret@h/x", "must not contain a user or password"),
        ("zk://h/x?a=1&a=2", "has option 'a' twice"),
        ("zk://h/x?a", "bad query field"),
    ],
)
def test_a_malformed_uri_is_refused_with_the_reason(uri: str, message: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        asyncio.run(open_store(uri))
    assert message in str(caught.value)
    assert "secret" not in str(caught.value)


def test_hosts_have_ports_and_are_distinct() -> None:
    assert parse_uri("zk://a,b:99,[::1]:7/x").hosts(2181) == (
        Host("a", 2181),
        Host("b", 99),
        Host("::1", 7),
    )
    assert str(Host("::1", 7)) == "[::1]:7"
    for bad in ("zk:///x", "zk://a:b/x", "zk://a:70000/x", "zk://a,,b/x", "zk://[::1/x"):
        with pytest.raises(ConfigurationError):
            parse_uri(bad).hosts(2181)
    with pytest.raises(ConfigurationError, match="twice"):
        parse_uri("zk://a,a:2181/x").hosts(2181)


@pytest.mark.parametrize(
    ("uri", "library", "extra"),
    [
        ("zk://h/x", "kazoo", "zookeeper"),
        ("etcd://h/x", "grpc", "etcd"),
        ("fdb:///x", "fdb", "fdb"),
    ],
)
def test_a_missing_client_library_names_the_extra(
    uri: str, library: str, extra: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    real_import = builtins.__import__

    def refuse(name: str, *args: object, **options: object) -> object:
        is_absolute = len(args) < 4 or args[3] == 0
        if is_absolute and name.partition(".")[0] == library:
            raise ModuleNotFoundError(f"No module named {name!r}", name=library)
        return real_import(name, *args, **options)  # type: ignore[arg-type]

    package = "zookeeper" if uri.startswith("zk") else extra
    for module in list(sys.modules):
        if module.startswith(f"rhumbline.backends.{package}"):
            monkeypatch.delitem(sys.modules, module)
    monkeypatch.setattr(builtins, "__import__", refuse)
    with pytest.raises(ConfigurationError, match=rf"rhumbline\[{extra}\]"):
        asyncio.run(open_store(uri))


async def test_memory_stores_with_the_same_name_share_a_tree_and_unnamed_ones_do_not() -> None:
    one, same = await open_store("memory:shared"), await open_store("memory:shared")
    await one.create("/a")
    assert await same.children("/") == ["a"]
    first, second = await open_store("memory:"), await open_store("memory:")
    assert (await first.create("/a"))[1] != (await second.create("/a"))[1]
