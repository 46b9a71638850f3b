"""A warning is logged about secrets that other users can read."""

import os
from pathlib import Path

import pytest

from rhumbline.access.ledger_secrets import LedgerSecrets
from rhumbline.access.token_source import token_source
from rhumbline.backends.open_store import open_store
from rhumbline.backends.uri import parse_uri, secret_files_of
from rhumbline.core.protocol.errors import ConfigurationError
from rhumbline.security.principal import Role
from rhumbline.security.secret_files import mode_of_readable, warn_if_readable
from rhumbline.tests.support.fakes.recorded_log import recorded_log
from rhumbline.tests.support.security.certificates import authority, settings_for
from rhumbline.tls.credentials import TlsCredentials


@pytest.fixture
def secret(tmp_path: Path) -> Path:
    file = tmp_path / "secret"
    file.write_text("default 0123456789abcdef0123456789abcdef\n")
    file.chmod(0o600)
    return file


@pytest.mark.parametrize(
    ("mode", "is_owner", "found"),
    [
        (0o600, True, None),
        (0o400, True, None),
        (0o640, True, "0640"),
        (0o604, True, "0604"),
        (0o644, True, "0644"),
        (0o440, False, None),
        (0o444, False, "0444"),
    ],
)
def test_only_the_owner_may_read_a_secret_or_else_the_group_that_needs_it(
    secret: Path, monkeypatch: pytest.MonkeyPatch, mode: int, is_owner: bool, found: str | None
) -> None:
    secret.chmod(mode)
    owner = os.stat(secret).st_uid
    monkeypatch.setattr(os, "geteuid", lambda: owner if is_owner else owner + 1)
    assert mode_of_readable(str(secret)) == found


def test_root_needs_no_group(secret: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    secret.chmod(0o640)
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert mode_of_readable(str(secret)) == "0640"


def test_each_secret_is_examined_when_it_is_loaded(secret: Path, tmp_path: Path) -> None:
    settings = settings_for(authority(tmp_path), "server", Role.BOOKIE)
    loads = {
        str(secret): (lambda: LedgerSecrets(str(secret)), lambda: token_source("", str(secret))),
        settings.key: (lambda: TlsCredentials(settings),),
    }
    for file, ways in loads.items():
        for load in ways:
            with recorded_log() as log:
                Path(file).chmod(0o600)
                load()
                assert log.events() == []
                Path(file).chmod(0o644)
                load()
            assert log.fields("secret file readable") == [{"file": file, "mode": "0644"}]
            Path(file).chmod(0o600)
    secret.unlink()
    with recorded_log() as log:
        warn_if_readable(str(secret))
    assert log.events() == []


async def test_secrets_of_a_metadata_store_are_those_of_its_uri(
    secret: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    uri = f"etcd://host/?tls_ca=ca&tls_cert=own&tls_key=key&auth_file={secret}"
    assert secret_files_of(parse_uri(uri)) == ["key", str(secret)]
    assert secret_files_of(parse_uri("memory:")) == []
    checked: list[str] = []
    monkeypatch.setattr("rhumbline.backends.open_store.warn_if_readable", checked.append)
    monkeypatch.setattr("rhumbline.backends.open_store.secret_files_of", lambda _: [str(secret)])
    await (await open_store("memory:")).close()
    assert checked == [str(secret)]
    with pytest.raises(ConfigurationError):
        await open_store("nonsense:")
    assert checked == [str(secret)]
