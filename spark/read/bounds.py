"""Starts and ends of a query, as its options give them: names, positions by stream, or times."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from ...core.protocol.dlsn import Dlsn
from ...core.protocol.errors import InvalidArgumentError

EARLIEST = "earliest"
LATEST = "latest"

_NOT_MS = "{!r} is not a whole number of milliseconds since 1970, such as 1767225600000"
_NOT_OFFSETS = '{!r} is not of the form {{"stream": "lssn:entry:slot"}}'


@dataclass(frozen=True, slots=True)
class AtTimestamp:
    """A bound at the first record that was created at this time or later."""

    ms: int | Mapping[str, int]
    """Milliseconds since 1970, for all streams or by stream."""

    def for_stream(self, stream: str) -> int:
        """Return the time for a stream. Raises InvalidArgumentError if none was given."""
        if isinstance(self.ms, int):
            return self.ms
        if stream not in self.ms:
            raise InvalidArgumentError(
                f"the timestamps by stream have no value for stream {stream}"
            )
        return self.ms[stream]


Bound = str | dict[str, Dlsn | str] | AtTimestamp
"""A start or end of a query: EARLIEST, LATEST, one of these or a position by stream, or a time."""


def names_bound(bound: Bound, name: str) -> bool:
    """True if the bound is EARLIEST or LATEST, as ``name`` says, for any stream."""
    return bound == name or (isinstance(bound, dict) and name in bound.values())


def bound_parsers(prefix: str) -> dict[str, Callable[[str], Bound]]:
    """Return the parsers of the options that set one end of a query, by the option's name.

    ``prefix`` is "starting" or "ending". The parsers raise ValueError.
    """
    return {
        f"{prefix}Offsets": _parse_bound,
        f"{prefix}Timestamp": lambda text: AtTimestamp(_parse_ms_text(text)),
        f"{prefix}OffsetsByTimestamp": lambda text: AtTimestamp(
            _parse_timestamps(_parse_json(text))
        ),
    }


def parse_offsets(given: object) -> dict[str, Dlsn]:
    """Return positions by stream from decoded JSON, e.g. ``{"orders": "3:1041:0"}``.

    Raises ValueError.
    """
    if not isinstance(given, dict) or not all(
        isinstance(position, str) for position in given.values()
    ):
        raise ValueError(_NOT_OFFSETS.format(given))
    try:
        return {str(stream): Dlsn.parse(text) for stream, text in given.items()}
    except InvalidArgumentError as error:
        raise ValueError(str(error)) from error


def format_offsets(offsets: Mapping[str, Dlsn]) -> dict[str, str]:
    """Return positions in their JSON form: a flat object of strings, sorted by stream."""
    return {stream: str(offsets[stream]) for stream in sorted(offsets)}


def _parse_bound(text: str) -> Bound:
    if (name := text.strip().lower()) in (EARLIEST, LATEST):
        return name
    if not text.strip().startswith("{"):
        raise ValueError(
            f'{text!r} is neither earliest, latest nor of the form {{"stream": "lssn:entry:slot"}}'
        )
    given = _parse_json(text)
    assert isinstance(given, dict)
    named = {
        str(stream): value.lower()
        for stream, value in given.items()
        if isinstance(value, str) and value.lower() in (EARLIEST, LATEST)
    }
    return {
        **parse_offsets({stream: given[stream] for stream in given if stream not in named}),
        **named,
    }


def _parse_json(text: str) -> object:
    try:
        return json.loads(text)
    except ValueError as error:
        raise ValueError(f"{text!r} is not valid JSON: {error}") from error


def _parse_ms(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise ValueError(_NOT_MS.format(value))
    return value


def _parse_ms_text(text: str) -> int:
    if not (text.strip().isascii() and text.strip().isdecimal()):
        raise ValueError(_NOT_MS.format(text))
    return int(text)


def _parse_timestamps(given: object) -> dict[str, int]:
    if not isinstance(given, dict):
        raise ValueError(f'{given!r} is not of the form {{"stream": milliseconds}}')
    return {str(stream): _parse_ms(value) for stream, value in given.items()}
