"""Tests that FoundationDB's bindings, version 7.3.69, have everything that Rhumbline uses.

The bindings cannot run without FoundationDB's client library; therefore their source is parsed. The
code that calls them is run with a replacement of their module, over the model of transactions.
"""

import ast
import asyncio
import importlib.metadata
import importlib.util
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from fdb import apiversion, fdboptions

from rhumbline.backends.fdb import native
from rhumbline.backends.fdb.bindings import WANT_ALL, FdbFuture, FdbTransaction
from rhumbline.backends.open_store import open_without_following
from rhumbline.core.protocol.errors import ConfigurationError, MetadataUnavailableError
from rhumbline.tests.support.fakes.fdb_bindings import FakeFdbModule, fake_fdb
from rhumbline.tests.support.fakes.fdb_model import ModelError

SPEC = importlib.util.find_spec("fdb")
FUTURES = ("FutureVoid", "FutureKeyValueArray", "Value", "Key")
"""The classes of futures that the methods of ``FdbTransaction`` return."""


def source(name: str) -> ast.Module:
    assert SPEC is not None and SPEC.submodule_search_locations is not None
    return ast.parse(Path(SPEC.submodule_search_locations[0], name).read_text())


def methods(module: ast.Module, name: str) -> dict[str, list[str]]:
    """Return the methods of a class, including inherited ones, with their parameters' names."""
    classes = {node.name: node for node in module.body if isinstance(node, ast.ClassDef)}
    node = classes[name]
    found: dict[str, list[str]] = {}
    for base in node.bases:
        if isinstance(base, ast.Name) and base.id in classes:
            found |= methods(module, base.id)
    for item in node.body:
        if isinstance(item, ast.FunctionDef):
            found[item.name] = [arg.arg for arg in item.args.args]
    return found


def used_methods(protocol: type) -> dict[str, int]:
    """Return the methods of a protocol, each with its number of parameters."""
    return {
        name: member.__code__.co_argcount
        for name, member in vars(protocol).items()
        if hasattr(member, "__code__") and (not name.startswith("_") or name == "_get_range")
    }


def test_the_installed_version_is_the_one_described_here() -> None:
    assert importlib.metadata.version("foundationdb") == "7.3.69"
    assert apiversion.LATEST_API_VERSION == native.API_VERSION


def test_every_used_method_of_a_transaction_exists() -> None:
    available = methods(source("impl.py"), "Transaction")
    generated = {"set_versionstamped_value"}
    assert generated <= {name.lower() for name in fdboptions.MutationType}
    calls = {name: n for name, n in used_methods(FdbTransaction).items() if name not in generated}
    assert calls
    for name, count in calls.items():
        assert len(available[name]) == count, f"{name}{available[name]}"


@pytest.mark.parametrize("name", FUTURES)
def test_every_used_method_of_a_future_exists(name: str) -> None:
    available = methods(source("impl.py"), name)
    for call, count in used_methods(FdbFuture).items():
        assert len(available[call]) == count, f"{call}{available[call]}"
    if name in ("Value", "Key"):
        assert "value" in available


def test_used_options_have_the_expected_types_and_limits() -> None:
    assert fdboptions.TransactionOption["timeout"][2] is int
    assert fdboptions.DatabaseOption["max_watches"][2] is int
    assert "1000000" in fdboptions.DatabaseOption["max_watches"][1]
    assert native.WATCHES_MAX <= 1_000_000
    assert fdboptions.StreamingMode["want_all"][0] == WANT_ALL
    for name in ("TLS_ca_path", "TLS_cert_path", "TLS_key_path"):
        assert fdboptions.NetworkOption[name][2] is str


def test_every_used_function_for_opening_a_cluster_exists() -> None:
    exported = {
        constant.value
        for node in ast.walk(source("__init__.py"))
        if isinstance(node, ast.Tuple)
        for constant in node.elts
        if isinstance(constant, ast.Constant)
    }
    assert {"FDBError", "KeySelector", "open", "directory", "options"} <= exported
    impl, directories = source("impl.py"), source("directory_impl.py")
    assert methods(impl, "Database")["create_transaction"] == ["self"]
    assert methods(impl, "KeySelector")["first_greater_or_equal"] == ["cls", "key"]
    assert methods(directories, "Directory")["create_or_open"][:3] == ["self", "tr", "path"]
    assert methods(source("subspace_impl.py"), "Subspace")["key"] == ["self"]


@pytest.fixture
def bindings() -> Iterator[FakeFdbModule]:
    with fake_fdb() as bindings:
        yield bindings


async def test_a_uri_opens_its_cluster_file_and_directory(bindings: FakeFdbModule) -> None:
    cluster = bindings.cluster

    cluster.faults.extend([("", 1020), ("done", 1021)])  # for the directory's transaction
    store = await open_without_following("fdb:///etc/x.cluster?dir=a/b")
    assert store.uri == "fdb:///etc/x.cluster?dir=a/b"
    await store.create("/n", b"x")
    await store.close()
    again = await open_without_following(store.uri)
    assert (await again.get("/n")).data == b"x"
    await again.close()
    assert bindings.opened == ["/etc/x.cluster"] * 2
    assert bindings.max_watches == native.WATCHES_MAX
    assert all(key.startswith(b"dir/a/b") for key in cluster.keys)


async def test_a_cluster_that_does_not_respond_blocks_neither_calls_nor_exit(
    bindings: FakeFdbModule,
) -> None:
    """The call ends at its time-out, and the loop does not wait for a thread at its end."""
    bindings.cluster.is_stopped = True
    with pytest.raises(MetadataUnavailableError):
        await open_without_following("fdb:///etc/x.cluster", timeout_ms=200)


def test_errors_of_the_bindings_at_opening_are_configuration_errors(
    bindings: FakeFdbModule, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_: object) -> None:
        raise ModelError(1515)  # no cluster file

    def run(setting: str, work: Callable[[object], None]) -> None:
        monkeypatch.setattr(bindings, setting, work)
        with pytest.raises(ConfigurationError, match="cannot be used"):
            asyncio.run(open_without_following("fdb:///none"))

    run("open", refuse)
    run("api_version", refuse)
