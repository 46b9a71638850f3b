"""Tests of opening the bindings: the library, and the files for TLS of the whole process."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from rhumbline.backends.fdb.library import HOME
from rhumbline.backends.open_store import open_without_following
from rhumbline.core.protocol.errors import ConfigurationError, MetadataUnavailableError
from rhumbline.tests.support.fakes.fdb_bindings import FakeFdbModule, fake_fdb


@pytest.fixture
def bindings(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeFdbModule]:
    for name in (HOME, "FDB_TLS_CERTIFICATE_FILE"):
        monkeypatch.delenv(name, raising=False)
    with fake_fdb() as bindings:
        yield bindings


@pytest.fixture
def files(tmp_path: Path) -> dict[str, Path]:
    made = {name: tmp_path / f"{name}.pem" for name in ("tls_ca", "tls_cert", "tls_key")}
    for file in made.values():
        file.write_text("PEM")
    return made


def uri_of(cluster: Path, files: dict[str, Path]) -> str:
    return f"fdb://{cluster}?" + "&".join(f"{name}={file}" for name, file in files.items())


async def refused(uri: str) -> str:
    with pytest.raises((ConfigurationError, MetadataUnavailableError)) as refusal:
        await open_without_following(uri, timeout_ms=200)
    return str(refusal.value)


async def test_tls_is_set_before_the_network_starts_and_once(
    bindings: FakeFdbModule, files: dict[str, Path]
) -> None:
    for _ in range(2):
        store = await open_without_following(uri_of(Path("/x.cluster"), files))
        assert store.uri == "fdb:///x.cluster?dir=rhumbline"
        await store.close()
    store = await open_without_following("fdb:///y.cluster")
    await store.close()
    assert bindings.calls == [
        f"ca {files['tls_ca']}", f"cert {files['tls_cert']}", f"key {files['tls_key']}",
        "open", "open", "open",
    ]  # fmt: skip


async def test_a_process_has_one_set_of_tls_files(
    bindings: FakeFdbModule, files: dict[str, Path], tmp_path: Path
) -> None:
    await (await open_without_following(uri_of(Path("/x.cluster"), files))).close()
    other = tmp_path / "other.pem"
    other.write_text("PEM")
    message = await refused(uri_of(Path("/x.cluster"), {**files, "tls_ca": other}))
    assert "one set of TLS files" in message


async def test_tls_files_after_the_start_of_the_network_are_refused(
    bindings: FakeFdbModule, files: dict[str, Path]
) -> None:
    await (await open_without_following("fdb:///x.cluster")).close()
    assert "was started without" in await refused(uri_of(Path("/x.cluster"), files))


async def test_tls_files_that_cannot_be_used_are_named(
    bindings: FakeFdbModule, files: dict[str, Path], tmp_path: Path
) -> None:
    files["tls_key"].unlink()
    assert "has a tls_key that cannot be read" in await refused(uri_of(Path("/x"), files))
    del files["tls_key"]
    assert "only one of tls_cert and tls_key" in await refused(uri_of(Path("/x"), files))


@pytest.mark.parametrize(
    ("addresses", "with_files", "hint"),
    [
        ("127.0.0.1:4500:tls", False, "says :tls, but this process has no certificate"),
        ("127.0.0.1:4500", True, "do not end with :tls"),
        ("127.0.0.1:4500", False, ""),
        ("127.0.0.1:4500:tls", True, ""),
    ],
)
async def test_a_cluster_that_never_responds_is_explained_by_tls(
    bindings: FakeFdbModule,
    files: dict[str, Path],
    tmp_path: Path,
    addresses: str,
    with_files: bool,
    hint: str,
) -> None:
    cluster = tmp_path / "fdb.cluster"
    cluster.write_text(f"name:id@{addresses}\n")
    bindings.cluster.is_stopped = True
    message = await refused(uri_of(cluster, files) if with_files else f"fdb://{cluster}")
    assert hint in message
    assert ("TLS" in message or "tls" in message) == bool(hint)


async def test_a_folder_without_the_library_is_named(
    bindings: FakeFdbModule, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(HOME, str(tmp_path))
    message = await refused("fdb:///x.cluster")
    assert message.startswith(f"RHUMBLINE_FDB_HOME is {str(tmp_path)!r}")
    assert "libfdb_c.so" in message


async def test_names_of_directories_are_bounded(bindings: FakeFdbModule) -> None:
    assert "above 1000 bytes" in await refused(f"fdb:///x.cluster?dir={'x' * 1_001}")
