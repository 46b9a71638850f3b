"""A missing optional dependency is reported in one line that says what to install."""

import asyncio
import re
import sys
from collections.abc import Callable
from importlib import import_module
from typing import Any

import pytest

from rhumbline.core.protocol.errors import ConfigurationError
from rhumbline.core.protocol.installation import is_lab_installed, lab_module, needs_extra


def open_metadata_store(uri: str) -> Callable[[], object]:
    def use() -> None:
        from rhumbline.stores import open_store

        asyncio.run(open_store(uri))

    return use


def open_cold_store(uri: str) -> Callable[[], object]:
    def use() -> None:
        from rhumbline.stores import open_cold_store

        open_cold_store(uri)

    return use


def connect_to_proxies() -> None:
    from rhumbline.client.connect import connect_proxies

    connect_proxies("grpc://127.0.0.1:1")


def run_proxy() -> None:
    from rhumbline.server.proxy_host import running_proxy

    async def main() -> None:
        client: Any = None
        config: Any = None
        async with running_proxy(client, config, roles=(), host="", port=0):
            pass

    asyncio.run(main())


def export_telemetry() -> None:
    from rhumbline.client.settings import TelemetrySettings
    from rhumbline.telemetry import running_telemetry

    async def main() -> None:
        settings = TelemetrySettings("http://127.0.0.1:1")
        async with running_telemetry(settings, service="test"):
            pass

    asyncio.run(main())


def trace() -> None:
    import rhumbline.telemetry

    _ = rhumbline.telemetry.OtelTracer


def open_spark_session() -> None:
    import rhumbline.spark

    _ = rhumbline.spark.open_session


def make_arrow_batch() -> None:
    from rhumbline.core.protocol import record_arrow

    record_arrow._Arrow()


def open_archive() -> None:
    from rhumbline.client import connect

    connect._open_cold("file:///cold")


def importing(module: str) -> Callable[[], object]:
    return lambda: import_module(f"rhumbline.{module}")


def hide(monkeypatch: pytest.MonkeyPatch, library: str, dropped: str) -> None:
    """Make ``library`` look uninstalled; forget imports of the ``dropped`` Rhumbline modules."""
    monkeypatch.setitem(sys.modules, library, None)
    for name in [name for name in sys.modules if name.startswith(f"{library}.")]:
        monkeypatch.setitem(sys.modules, name, None)
    for name in [name for name in sys.modules if re.match(rf"rhumbline\.({dropped})\b", name)]:
        parent, _, leaf = name.rpartition(".")
        if parent in sys.modules:
            monkeypatch.delattr(sys.modules[parent], leaf, raising=False)
        monkeypatch.delitem(sys.modules, name)


@pytest.mark.parametrize(
    ("library", "extra", "dropped", "use"),
    [
        ("kazoo", "zookeeper", r"backends\.zookeeper", open_metadata_store("zk://h/x")),
        ("grpc", "etcd", r"backends\.etcd", open_metadata_store("etcd://h/x")),
        ("fdb", "fdb", r"backends\.fdb", open_metadata_store("fdb:///x")),
        ("boto3", "s3", r"coldstore\.stores\.s3", open_cold_store("s3://bucket/prefix")),
        ("hdfs", "hdfs", r"coldstore\.stores\.hdfs", open_cold_store("webhdfs://host:9870/root")),
        ("grpc", "grpc", r"proxies\.(client|rpc)", connect_to_proxies),
        ("grpc", "grpc", r"proxies\.(client|rpc)", run_proxy),
        ("opentelemetry", "otel", r"telemetry\.(export|tracing|instruments)", export_telemetry),
        ("opentelemetry", "otel", r"telemetry\.(export|tracing|instruments)", trace),
        ("pyspark", "spark", r"spark\.(session|source|read|write|jobs)", open_spark_session),
        ("pyspark", "spark", r"spark\.|cli\.streams\.spark", importing("cli.streams.spark")),
        ("pyarrow", "arrow", r"nothing", make_arrow_batch),
        ("pyarrow", "arrow", r"coldstore\.(archive|ledger)", open_archive),
        ("pyarrow", "arrow", r"coldstore\.archive|cli\.streams\.archive",
         importing("cli.streams.archive")),
    ],
)  # fmt: skip
def test_missing_library_is_reported_with_its_extra(
    library: str,
    extra: str,
    dropped: str,
    use: Callable[[], object],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    hide(monkeypatch, library, dropped)
    with pytest.raises(ConfigurationError) as raised:
        use()
    text = str(raised.value)
    assert text.endswith(f" needs {library}: pip install 'rhumbline[{extra}]'")
    assert "\n" not in text


def test_missing_module_of_rhumbline_is_a_bug() -> None:
    with pytest.raises(ModuleNotFoundError), needs_extra("a test", "s3"):
        import_module("rhumbline.no_such_module")


def test_module_that_exists_is_imported() -> None:
    with needs_extra("a test", "s3"):
        import_module("json")


def test_an_error_that_names_no_module_is_passed_on() -> None:
    with pytest.raises(ModuleNotFoundError, match="odd"), needs_extra("a test", "s3"):
        raise ModuleNotFoundError("odd")


def test_a_missing_part_is_reported_by_the_name_of_its_library() -> None:
    with (
        pytest.raises(ConfigurationError, match=r"^a test needs boto3: .*rhumbline\[s3\]"),
        needs_extra("a test", "s3"),
    ):
        raise ModuleNotFoundError("no such part", name="boto3.part")


def test_modules_of_the_lab_are_found_by_name() -> None:
    assert is_lab_installed()
    assert "simulator" in str(lab_module("chaos").__doc__)
    with pytest.raises(ModuleNotFoundError):
        lab_module("chaos.nothing")
