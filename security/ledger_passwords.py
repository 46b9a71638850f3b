"""Passwords of ledgers, which are derived from a secret of their namespace (rule SEC-9)."""

import hashlib
import hmac

from ..core.protocol.errors import InvalidArgumentError

SECRET_CHARACTERS_MIN = 32
_LEDGER_BYTES = 8


def ledger_password(secret: str, ledger_id: int) -> bytes:
    """Return the password of a ledger: HMAC-SHA256 of its id, in hex as ASCII.

    The key is the secret in UTF-8, and the message is the id in 8 bytes, big-endian.
    """
    message = ledger_id.to_bytes(_LEDGER_BYTES, "big")
    return hmac.new(secret.encode(), message, hashlib.sha256).hexdigest().encode("ascii")


def parse_ledger_secrets(text: str) -> dict[str, str]:
    """Return the secrets of a file: lines of namespace and secret; # begins a comment.

    Raises InvalidArgumentError that names the first wrong line, without its content.
    """
    found: dict[str, str] = {}
    for number, line in enumerate(text.splitlines(), 1):
        words = line.partition("#")[0].split()
        if not words:
            continue
        if len(words) != 2 or len(words[1]) < SECRET_CHARACTERS_MIN or words[0] in found:
            raise InvalidArgumentError(
                f"line {number} is not a namespace, named once, and a secret of at least "
                f"{SECRET_CHARACTERS_MIN} characters"
            )
        found[words[0]] = words[1]
    return found
