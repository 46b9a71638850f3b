import ssl
from pathlib import Path

import pytest

from rhumbline.core.protocol.errors import ConfigurationError
from rhumbline.security.principal import Role
from rhumbline.security.settings import TlsSettings
from rhumbline.tests.support.fakes.recorded_log import recorded_log
from rhumbline.tests.support.security.certificates import authority, settings_for
from rhumbline.tls.credentials import TlsCredentials, credentials_of


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def test_renewed_files_are_loaded_and_broken_ones_are_not(tmp_path: Path) -> None:
    made = authority(tmp_path)
    settings = settings_for(made, "server", Role.BOOKIE)
    clock = Clock()
    credentials = TlsCredentials(settings, now_s=clock)
    first = credentials.server_context()
    with recorded_log() as log:
        made.issue("server", [Role.BOOKIE], days=2)
        assert credentials.server_context() is first  # the files are looked at once a second
        clock.now += 1
        second = credentials.server_context()
        assert second is not first
        assert credentials.version == 2
        Path(settings.certificate).write_text("half of a file")
        for _ in range(3):
            clock.now += 1
            assert credentials.server_context() is second
        made.issue("server", [Role.BOOKIE], days=2)
        clock.now += 1
        assert credentials.server_context() is not second
    assert log.events() == ["certificate loaded", "certificate not loaded", "certificate loaded"]


def test_a_key_of_another_certificate_is_not_used(tmp_path: Path) -> None:
    made = authority(tmp_path)
    server = settings_for(made, "server", Role.BOOKIE)
    other = settings_for(made, "other", Role.BOOKIE)
    with pytest.raises(ConfigurationError, match="cannot be used"):
        TlsCredentials(TlsSettings(certificate=server.certificate, key=other.key, ca=server.ca))


def test_missing_files_are_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="nowhere"):
        TlsCredentials(TlsSettings(ca=str(tmp_path / "nowhere.pem")))


def test_settings_belong_together(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="needs key"):
        TlsSettings(certificate="a.pem")
    assert credentials_of(None) is None
    assert credentials_of(TlsSettings()) is None
    made = authority(tmp_path)
    server = settings_for(made, "server", Role.BOOKIE)
    with pytest.raises(ConfigurationError, match="ca is not set"):
        credentials_of(TlsSettings(certificate=server.certificate, key=server.key))


def test_contexts_refuse_old_versions_and_renegotiation(tmp_path: Path) -> None:
    credentials = TlsCredentials(settings_for(authority(tmp_path), "server", Role.BOOKIE))
    server, client = credentials.server_context(), credentials.client_context()
    for context in (server, client):
        assert context.minimum_version == ssl.TLSVersion.TLSv1_2
        assert context.options & ssl.OP_NO_RENEGOTIATION
        assert context.verify_mode == ssl.CERT_REQUIRED
    assert client.check_hostname
    assert server.num_tickets == 0
    optional = credentials.server_context(needs_certificate=False)
    assert optional.verify_mode == ssl.CERT_OPTIONAL


def test_servers_offer_ciphers_with_forward_secrecy_and_authentication_only(tmp_path: Path) -> None:
    context = TlsCredentials(
        settings_for(authority(tmp_path), "server", Role.BOOKIE)
    ).server_context()
    older = [one for one in context.get_ciphers() if one["protocol"] == "TLSv1.2"]
    assert older
    assert all(one["aead"] and one["name"].startswith("ECDHE-") for one in older)
