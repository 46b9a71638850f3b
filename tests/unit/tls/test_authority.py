from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from rhumbline.core.protocol.errors import ConfigurationError, InvalidArgumentError
from rhumbline.security.certificate_names import principal_of_certificate
from rhumbline.security.principal import Principal, Role
from rhumbline.tests.support.security.certificates import authority
from rhumbline.tls.authority import Authority
from rhumbline.tls.certificate import decode_pem


def test_a_certificate_names_its_principal_and_roles(tmp_path: Path) -> None:
    issued = authority(tmp_path).issue("b-1", [Role.BOOKIE, Role.PROXY], days=2)
    found = decode_pem(issued.certificate.read_bytes())
    assert principal_of_certificate(found.names) == Principal(
        "spiffe://test/bookie/b-1", frozenset({Role.BOOKIE, Role.PROXY})
    )
    assert found.not_after == issued.not_after
    assert timedelta(days=1) < found.not_after - datetime.now(UTC) <= timedelta(days=2)


def test_keys_are_readable_by_their_owner_only(tmp_path: Path) -> None:
    issued = authority(tmp_path).issue("client", [Role.CLIENT], days=1)
    assert issued.key.stat().st_mode & 0o777 == 0o600
    assert (tmp_path / "ca.key").stat().st_mode & 0o777 == 0o600
    assert not list(tmp_path.glob(".*.part"))


def test_an_authority_that_exists_is_kept(tmp_path: Path) -> None:
    made = authority(tmp_path)
    before = made.certificate_file.read_bytes()
    made.create(trust_domain="another", days=1)
    assert made.certificate_file.read_bytes() == before


def test_no_certificate_outlives_its_authority(tmp_path: Path) -> None:
    made = authority(tmp_path)
    ca = decode_pem(made.certificate_file.read_bytes())
    assert made.issue("client", [Role.CLIENT], days=10_000).not_after == ca.not_after


def test_mistakes_are_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="security init"):
        Authority(tmp_path / "none").issue("client", [Role.CLIENT], days=1)
    for name in ("", "../client", "a b"):
        with pytest.raises(InvalidArgumentError):
            authority(tmp_path).issue(name, [Role.CLIENT], days=1)
