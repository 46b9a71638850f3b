"""Writes objects, and resolves unknown outcomes of the writes."""

from ...core.protocol.errors import NoSuchObjectError, UnavailableError, UnknownOutcomeError
from ...core.runtime.cold_store import ColdStore

_ATTEMPTS_MAX = 5


async def put_object(cold: ColdStore, key: str, data: bytes) -> bool:
    """Call ``put_if_absent``; after an unknown outcome, compare the object with ``data``.

    Return True if this call created the object, or may have created it and the content is the same.
    Raises UnavailableError if the outcome stays unknown.
    """
    for _ in range(_ATTEMPTS_MAX):
        try:
            return await cold.put_if_absent(key, data)
        except UnknownOutcomeError:
            try:
                return await cold.get(key) == data
            except NoSuchObjectError:
                continue
    raise UnavailableError(
        f"cold store: the outcome of writing {key} is unknown after {_ATTEMPTS_MAX} attempts"
    )
