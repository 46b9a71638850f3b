"""The file of secrets is read again when it changes, and never ignored."""

from pathlib import Path

import pytest

from rhumbline.access.ledger_secrets import LedgerSecrets
from rhumbline.core.protocol.errors import ConfigurationError
from rhumbline.core.protocol.ledger_metadata import NAMESPACE_KEY
from rhumbline.security.ledger_passwords import ledger_password

SECRET = "0123456789abcdef0123456789abcdef"
ACME = {NAMESPACE_KEY: b"acme"}


def test_a_new_ledger_gets_the_password_of_its_namespace(tmp_path: Path) -> None:
    file = tmp_path / "secrets"
    file.write_text(f"acme {SECRET}\n")
    secrets = LedgerSecrets(str(file))
    assert secrets.password_of(7, ACME) == ledger_password(SECRET, 7)
    assert secrets.password_of(7, {NAMESPACE_KEY: b"other"}) == b""
    assert secrets.password_of(7, {}) == b""
    file.write_text(f"acme {SECRET[::-1]} # changed\n")
    assert secrets.password_of(7, ACME) == ledger_password(SECRET[::-1], 7)
    assert LedgerSecrets("").password_of(7, ACME) == b""


def test_no_ledger_is_made_without_its_password(tmp_path: Path) -> None:
    file = tmp_path / "secrets"
    with pytest.raises(ConfigurationError, match="ledger_secrets"):
        LedgerSecrets(str(file))
    file.write_text(f"acme {SECRET}\n")
    secrets = LedgerSecrets(str(file))
    file.unlink()
    with pytest.raises(ConfigurationError, match="ledger_secrets"):
        secrets.password_of(7, ACME)
