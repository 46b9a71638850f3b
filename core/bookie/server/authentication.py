"""The AUTH handshake: a Rhumbline client names the bookie id that it expects (rule BKE-5)."""

from typing import NamedTuple

from ...protocol.bookie_id import BookieId
from ...wire.handshake import APACHE_NO_AUTH_PLUGIN, PLUGIN, decode_hello, encode_response


class AuthOutcome(NamedTuple):
    """The response to send; the connection is closed after it unless ``is_accepted``."""

    plugin: str
    payload: bytes
    is_accepted: bool


def authenticate(plugin: str, payload: bytes, here: BookieId) -> AuthOutcome:
    """Checks an AUTH message. Raises ProtocolError if the greeting is malformed.

    Another plugin gets the response of a bookie without authentication and is accepted.
    """
    if plugin != PLUGIN:
        return AuthOutcome(APACHE_NO_AUTH_PLUGIN, b"", True)
    wanted = decode_hello(payload)
    return AuthOutcome(PLUGIN, encode_response(wanted, here), wanted == here)
