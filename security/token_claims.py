"""Judges the claims of a verified token, and the lines of the file of static tokens."""

import hashlib
import hmac
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from ..core.protocol.errors import InvalidArgumentError, UnauthorizedError
from .principal import Principal, Role

_NAME_CHARACTERS_MAX = 256


def principal_of_claims(
    claims: Mapping[str, Any], roles_by_name: Mapping[str, str] | None = None
) -> Principal:
    """Return the principal of a verified token: its subject, with the roles of the settings.

    Raises UnauthorizedError if it has no usable subject.
    """
    name = claims.get("sub")
    if not isinstance(name, str) or not name or len(name) > _NAME_CHARACTERS_MAX:
        raise UnauthorizedError("the token has no valid subject")
    return Principal(name, parse_roles((roles_by_name or {}).get(name, "")))


class StaticToken(NamedTuple):
    """A token that a proxy accepts; only its hash is known."""

    principal: Principal
    sha256: str


def static_token_line(name: str, token: str, roles: Iterable[Role]) -> str:
    """Return the line of the file of static tokens for a new token."""
    if not name or any(character.isspace() for character in name):
        raise InvalidArgumentError(f"name {name!r} is empty or has spaces")
    return f"{name} {_hash(token)} {','.join(roles)}"


def parse_static_tokens(text: str) -> tuple[StaticToken, ...]:
    """Return the tokens of a file: lines of name, hash and roles; # begins a comment.

    Raises InvalidArgumentError that names the first wrong line, without its content.
    """
    found = []
    for number, line in enumerate(text.splitlines(), 1):
        words = line.partition("#")[0].split()
        if not words:
            continue
        if len(words) not in (2, 3) or len(words[1]) != 64 or not _is_hex(words[1]):
            raise InvalidArgumentError(f"line {number} is not: name, SHA-256 in hex, roles")
        roles = parse_roles(words[2] if len(words) == 3 else "")
        found.append(StaticToken(Principal(words[0], roles), words[1].lower()))
    return tuple(found)


def principal_of_static_token(token: str, known: Iterable[StaticToken]) -> Principal | None:
    """Return the holder of a token; None if it is unknown. Takes the same time for every token."""
    found = None
    hashed = _hash(token)
    for one in known:
        if hmac.compare_digest(hashed, one.sha256):
            found = one.principal
    return found


def parse_roles(text: str) -> frozenset[Role]:
    """Return the known roles in a comma-separated string, or ``client`` if there are none."""
    known = {role.value: role for role in Role}
    words = (word.strip() for word in text.split(","))
    return frozenset(known[word] for word in words if word in known) or frozenset({Role.CLIENT})


def _hash(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()


def _is_hex(text: str) -> bool:
    return all(character in "0123456789abcdefABCDEF" for character in text)
