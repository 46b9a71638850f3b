import pytest

from rhumbline.core.protocol.errors import InvalidArgumentError
from rhumbline.security.principal import Principal, Role
from rhumbline.security.token_claims import (
    parse_roles,
    parse_static_tokens,
    principal_of_static_token,
    static_token_line,
)


def test_a_line_holds_a_hash_and_no_token() -> None:
    line = static_token_line("ops", "s3cret", [Role.ADMIN, Role.PROXY])
    assert "s3cret" not in line
    known = parse_static_tokens(f"{line}\n{static_token_line('app', 'other', [])}\n")
    found = principal_of_static_token("s3cret", known)
    assert found is not None
    assert found == Principal("ops", frozenset({Role.ADMIN, Role.PROXY}))
    assert principal_of_static_token("", known) is None
    with pytest.raises(InvalidArgumentError):
        static_token_line("two words", "s3cret", [])


@pytest.mark.parametrize(
    "line", ["s3cret", "s3cret b", f"a {'x' * 64}", f"a {'0' * 64} admin more"]
)
def test_a_wrong_line_is_named_and_not_shown(line: str) -> None:
    with pytest.raises(InvalidArgumentError, match="line 2 is not") as caught:
        parse_static_tokens(f"# comment\n{line}")
    assert line not in str(caught.value)


def test_unknown_roles_give_nothing() -> None:
    assert parse_roles("admin, emperor") == {Role.ADMIN}
    assert parse_roles("emperor") == {Role.CLIENT}
