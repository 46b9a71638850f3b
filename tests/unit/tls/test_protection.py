from pathlib import Path

import pytest

from rhumbline.core.protocol.errors import ConfigurationError
from rhumbline.security.principal import Role
from rhumbline.security.settings import SecuritySettings, TlsSettings
from rhumbline.tests.support.fakes.recorded_log import recorded_log
from rhumbline.tests.support.security.certificates import authority, settings_for
from rhumbline.tls.protection import (
    UNPROTECTED,
    Protection,
    certificate_statistics,
    is_loopback,
    protection_of,
)


@pytest.mark.parametrize("host", ["127.0.0.1", "127.9.9.9", "::1", "[::1]", "localhost"])
def test_loopback_needs_no_tls(host: str) -> None:
    assert is_loopback(host)
    UNPROTECTED.check_address(host, "the bookie")


def test_the_address_of_a_status_server_says_whether_it_has_tls(tmp_path: Path) -> None:
    assert UNPROTECTED.status_scheme == "http"
    server = protection_of(
        settings_for(authority(tmp_path), "server", Role.BOOKIE), SecuritySettings()
    )
    assert server.status_scheme == "https"


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "", "10.1.2.3", "bookie.example"])
def test_other_addresses_need_tls_or_a_decision(host: str, tmp_path: Path) -> None:
    assert not is_loopback(host)
    with pytest.raises(ConfigurationError, match="insecure_network"):
        UNPROTECTED.check_address(host, "the bookie")
    insecure = SecuritySettings(insecure_network=True)
    with recorded_log() as log:
        Protection(security=insecure).check_address(host, "the bookie")
    assert log.fields("network unprotected") == [{"server": "the bookie", "host": host}]
    made = authority(tmp_path)
    tls = settings_for(made, "server", Role.BOOKIE)
    protection_of(tls, SecuritySettings()).check_address(host, "the bookie")
    optional = settings_for(made, "server", Role.BOOKIE, required=False)
    with pytest.raises(ConfigurationError, match="insecure_network"):
        protection_of(optional, SecuritySettings()).check_address(host, "the bookie")


def test_a_client_needs_authorities_only(tmp_path: Path) -> None:
    ca = str(authority(tmp_path).certificate_file)
    found = protection_of(TlsSettings(ca=ca), SecuritySettings())
    assert found.connecting is not None
    assert found.serving is None
    assert found.gate() is None
    assert certificate_statistics(found) is None
    assert protection_of(TlsSettings(ca=ca, connect=False), SecuritySettings()).connecting is None
