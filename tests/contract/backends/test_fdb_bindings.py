"""FoundationDB's bindings, version 7.3.69, as they are written: what we use of them is there.

They cannot run without FoundationDB's client library, so their source is read. A stand-in for their
module, over the model of transactions, runs what touches them.
"""

import ast
import asyncio
import importlib.metadata
import importlib.util
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from fdb import apiversion, fdboptions

from rhumbline.backends.fdb import native
from rhumbline.backends.fdb.client import WANT_ALL, FdbFuture, FdbTransaction
from rhumbline.backends.open_store import open_without_following
from rhumbline.core.protocol.errors import ConfigurationError, MetadataUnavailableError
from rhumbline.tests.support.fakes.fdb_bindings import FakeFdbModule, fake_fdb
from rhumbline.tests.support.fakes.fdb_model import ModelError

SPEC = importlib.util.find_spec("fdb")
FUTURES = ("FutureVoid", "FutureKeyValueArray", "Value", "Key")
"""What the calls of ``FdbTransaction`` return."""


def source(name: str) -> ast.Module:
    assert SPEC is not None and SPEC.submodule_search_locations is not None
    return ast.parse(Path(SPEC.submodule_search_locations[0], name).read_text())


def methods(module: ast.Module, name: str) -> dict[str, list[str]]:
    """The methods of a class, inherited ones too, with the names of their parameters."""
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


def wanted(protocol: type) -> dict[str, int]:
    """The methods of one of our protocols, with how many parameters each takes."""
    return {
        name: member.__code__.co_argcount
        for name, member in vars(protocol).items()
        if hasattr(member, "__code__") and (not name.startswith("_") or name == "_get_range")
    }


def test_this_is_the_version_that_was_read() -> None:
    assert importlib.metadata.version("foundationdb") == "7.3.69"
    assert apiversion.LATEST_API_VERSION == native.API_VERSION


def test_every_call_of_a_transaction_is_there() -> None:
    there = methods(source("impl.py"), "Transaction")
    generated = {"set_versionstamped_value"}
    assert generated <= {name.lower() for name in fdboptions.MutationType}
    calls = {name: n for name, n in wanted(FdbTransaction).items() if name not in generated}
    assert calls
    for name, count in calls.items():
        assert len(there[name]) == count, f"{name}{there[name]}"


@pytest.mark.parametrize("name", FUTURES)
def test_every_call_of_a_future_is_there(name: str) -> None:
    there = methods(source("impl.py"), name)
    for call, count in wanted(FdbFuture).items():
        assert len(there[call]) == count, f"{call}{there[call]}"
    if name in ("Value", "Key"):
        assert "value" in there


def test_options_have_the_names_types_and_numbers_that_are_used() -> None:
    assert fdboptions.TransactionOption["timeout"][2] is int
    assert fdboptions.DatabaseOption["max_watches"][2] is int
    assert "1000000" in fdboptions.DatabaseOption["max_watches"][1]
    assert native.WATCHES_MAX <= 1_000_000
    assert fdboptions.StreamingMode["want_all"][0] == WANT_ALL


def test_what_opens_a_cluster_is_there() -> None:
    exported = {
        constant.value
        for node in ast.walk(source("__init__.py"))
        if isinstance(node, ast.Tuple)
        for constant in node.elts
        if isinstance(constant, ast.Constant)
    }
    assert {"FDBError", "KeySelector", "open", "directory"} <= exported
    impl, directories = source("impl.py"), source("directory_impl.py")
    assert methods(impl, "Database")["create_transaction"] == ["self"]
    assert methods(impl, "KeySelector")["first_greater_or_equal"] == ["cls", "key"]
    assert methods(directories, "Directory")["create_or_open"][:3] == ["self", "tr", "path"]
    assert methods(source("subspace_impl.py"), "Subspace")["key"] == ["self"]


@pytest.fixture
def bindings() -> Iterator[FakeFdbModule]:
    with fake_fdb() as bindings:
        yield bindings


def test_a_uri_opens_the_cluster_file_and_the_directory(bindings: FakeFdbModule) -> None:
    cluster = bindings.cluster

    async def run() -> None:
        cluster.faults.extend([("", 1020), ("done", 1021)])  # of the directory's transaction
        store = await open_without_following("fdb:///etc/x.cluster?dir=a/b")
        assert store.uri == "fdb:///etc/x.cluster?dir=a/b"
        await store.create("/n", b"x")
        await store.close()
        again = await open_without_following(store.uri)
        assert (await again.get("/n")).data == b"x"
        await again.close()

    asyncio.run(run())
    assert bindings.opened == ["/etc/x.cluster"] * 2
    assert bindings.max_watches == native.WATCHES_MAX
    assert all(key.startswith(b"dir/a/b") for key in cluster.keys)


def test_a_cluster_that_does_not_answer_holds_up_nobody(bindings: FakeFdbModule) -> None:
    """Neither the call nor, by a thread that is left behind, the end of the process."""
    bindings.cluster.is_stopped = True
    began = time.monotonic()

    async def run() -> None:
        with pytest.raises(MetadataUnavailableError):
            await open_without_following("fdb:///etc/x.cluster", timeout_ms=200)

    asyncio.run(run())
    assert time.monotonic() - began < 5


def test_what_the_bindings_refuse_is_a_setting_that_is_wrong(
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
