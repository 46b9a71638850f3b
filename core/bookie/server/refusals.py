"""Conversion of prepared success responses into error responses.

The response to an add is encoded as a success when the add is appended, and sent when its group is
durable. If there is no space for the group, which is rare, its responses are converted.
"""

from collections.abc import Iterable

from ...protocol.errors import RhumblineError
from ...wire import v2, v3
from ...wire.error_codes import code_for, status_for


def refusals_of(responses: Iterable[bytes], error: RhumblineError) -> bytes:
    """Return the same responses, in the same order, with ``error`` as their outcome."""
    return b"".join([_refusal_of(response, error) for response in responses])


def _refusal_of(response: bytes, error: RhumblineError) -> bytes:
    if response[4] == v2.VERSION:
        word, _, ledger_id, entry_id = v2.RESPONSE.unpack(response)
        return v2.RESPONSE.pack(word, code_for(error), ledger_id, entry_id)
    return v3.frame(v3.with_status(v3.decode_response(response[4:]), status_for(error)))
