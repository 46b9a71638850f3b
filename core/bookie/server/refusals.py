"""Turning answers that were made for success into refusals.

Adds are answered OK when their group is durable, so their answers are made beforehand. When a group
finds no space, which is rare, each of them becomes the answer that tells so.
"""

from collections.abc import Iterable

from ...protocol.errors import RhumblineError
from ...wire import v2, v3
from ...wire.error_codes import code_for, status_for


def refusals_of(answers: Iterable[bytes], error: RhumblineError) -> bytes:
    """The same answers, in the same order, saying ``error``."""
    return b"".join([_refusal_of(answer, error) for answer in answers])


def _refusal_of(answer: bytes, error: RhumblineError) -> bytes:
    if answer[4] == v2.VERSION:
        word, _, ledger_id, entry_id = v2.RESPONSE.unpack(answer)
        return v2.RESPONSE.pack(word, code_for(error), ledger_id, entry_id)
    return v3.frame(v3.with_status(v3.decode_response(answer[4:]), status_for(error)))
