import pytest

from rhumbline.core.protocol.errors import InvalidArgumentError
from rhumbline.security.ledger_passwords import ledger_password, parse_ledger_secrets

SECRET = "0123456789abcdef0123456789abcdef"


def test_the_password_of_a_ledger_does_not_change() -> None:
    assert ledger_password(SECRET, 7) == (
        b"2cef49879a2e1d0ab517167de08e904bc5a4d1958daea17bebf7c9e3d6f67f40"
    )


def test_each_ledger_and_each_secret_has_a_password_of_its_own() -> None:
    passwords = {ledger_password(SECRET, number) for number in (0, 1, 256, 2**62)}
    passwords.add(ledger_password(SECRET[::-1], 0))
    assert len(passwords) == 5


def test_a_file_names_each_namespace_once() -> None:
    text = f"# secrets\nacme {SECRET}\n\nother {SECRET[::-1]} # the newest\n"
    assert parse_ledger_secrets(text) == {"acme": SECRET, "other": SECRET[::-1]}


@pytest.mark.parametrize(
    "line", ["acme", f"acme {SECRET} more", f"acme {SECRET[1:]}", f"first {SECRET}"]
)
def test_a_wrong_line_of_secrets_is_named_and_not_shown(line: str) -> None:
    with pytest.raises(InvalidArgumentError, match="line 2 is not") as caught:
        parse_ledger_secrets(f"first {SECRET}\n{line}")
    assert SECRET[1:] not in str(caught.value)
