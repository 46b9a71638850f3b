"""The AUTH handshake: clients of ours name the bookie id that they want; others are let in."""

from typing import NamedTuple

from ...protocol.bookie_id import BookieId
from ...wire.handshake import APACHE_NO_AUTH_PLUGIN, PLUGIN, decode_hello, encode_answer


class AuthAnswer(NamedTuple):
    """What to send; the connection is closed behind it unless it is accepted."""

    plugin: str
    payload: bytes
    is_accepted: bool


def authenticate(plugin: str, payload: bytes, here: BookieId) -> AuthAnswer:
    """Answers an AUTH message. Raises ProtocolError for a greeting that is none.

    A plugin that is not ours gets what a bookie without authentication says: no need.
    """
    if plugin != PLUGIN:
        return AuthAnswer(APACHE_NO_AUTH_PLUGIN, b"", True)
    wanted = decode_hello(payload)
    return AuthAnswer(PLUGIN, encode_answer(wanted, here), wanted == here)
