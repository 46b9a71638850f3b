"""Log lines about rare events: the event first, ids as fields (style guide, "Log lines").

``EventLog`` is a thin layer on the standard ``logging`` module. The message of a record contains
event and fields, so it can be read with any handler. The fields are also attributes of the record
(``extra``), so a handler can write them as JSON. A record's own time is logging's; nothing here
reads a clock. Lines are for rare events only: nothing logs for a single add or read.
"""

import json
import logging
from collections import OrderedDict
from typing import Any

from .state_machine import StateMachine, story_line

RESERVED_FIELDS = ("event", "level", "logger", "source", "time", "traceback")
"""Names that a JSON line uses itself. The attributes of ``logging.LogRecord`` are reserved too."""

_VALUE_CHARS_MAX = 400
_KEYS_MAX = 64
_PLAIN = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.:/+@#[]%*")


class EventLog:
    """The logger of one module. A field whose value is None is left out.

    A line about the trouble of a ``machine`` ends with the field ``story``: its last transitions.
    """

    __slots__ = ("_logger",)

    def __init__(self, name: str) -> None:
        """``name``: the module's ``__name__``."""
        self._logger = logging.getLogger(name)

    def debug(self, event: str, **fields: object) -> None:
        """Log a detail that only helps to find bugs."""
        self._log(logging.DEBUG, event, fields)

    def info(self, event: str, **fields: object) -> None:
        """Log a change of state that needs no action."""
        self._log(logging.INFO, event, fields)

    def warning(
        self, event: str, *, machine: StateMachine[Any, Any] | None = None, **fields: object
    ) -> None:
        """Log a fault that the system tolerates or repairs by itself."""
        self._log(logging.WARNING, event, fields, machine=machine)

    def error(
        self,
        event: str,
        *,
        exception: BaseException | None = None,
        machine: StateMachine[Any, Any] | None = None,
        **fields: object,
    ) -> None:
        """Log a fault that somebody must look at; ``exception`` adds a traceback."""
        self._log(logging.ERROR, event, fields, exception, machine)

    def _log(
        self,
        level: int,
        event: str,
        fields: dict[str, object],
        exception: BaseException | None = None,
        machine: StateMachine[Any, Any] | None = None,
    ) -> None:
        if not self._logger.isEnabledFor(level):
            return
        if machine is not None:
            fields["story"] = story_line(machine.story()) or None
        shown = {name: _shown(value) for name, value in fields.items() if value is not None}
        self._logger.log(
            level,
            "%s",
            event_text(event, shown),
            exc_info=exception,
            extra={**shown, "event": event, "event_fields": shown},
        )


class LogLimit:
    """Bounds repeated lines: at most one for each key in ``interval_ms``; the rest is counted.

    It remembers a bounded number of keys. If there are more, the oldest ones are forgotten, so keys
    should be few, such as the name of a task.
    """

    __slots__ = ("_interval_s", "_keys")

    def __init__(self, interval_ms: int = 10_000) -> None:
        self._interval_s = interval_ms / 1000
        self._keys: OrderedDict[str, tuple[float, int]] = OrderedDict()

    def admit(self, now: float, key: str = "") -> int | None:
        """Return None if the line must be dropped, else how many were dropped since the last one.

        ``now``: the time of the loop in seconds.
        """
        known = self._keys.get(key)
        if known is not None and now < known[0]:
            self._keys[key] = known[0], known[1] + 1
            return None
        self._keys[key] = now + self._interval_s, 0
        self._keys.move_to_end(key)
        if len(self._keys) > _KEYS_MAX:
            self._keys.popitem(last=False)
        return 0 if known is None else known[1]


def event_text(event: str, fields: dict[str, object]) -> str:
    """Return the text of a line: the event, then the fields as ``name=value``, in one line."""
    return " ".join([event, *(f"{name}={_as_text(value)}" for name, value in fields.items())])


def _shown(value: object) -> object:
    """Return a value that JSON can represent, with a bounded size."""
    if isinstance(value, bool | int | float):
        return value
    if isinstance(value, BaseException):
        value = f"{type(value).__name__}: {value}"
    if isinstance(value, list | tuple):
        return [_shown(item) for item in value]
    text = str(value)
    return text if len(text) <= _VALUE_CHARS_MAX else f"{text[: _VALUE_CHARS_MAX - 3]}..."


def _as_text(value: object) -> str:
    if isinstance(value, list):
        return ",".join(map(_as_text, value))
    if isinstance(value, bool):
        return "true" if value else "false"
    text = str(value)
    return text if text and _PLAIN.issuperset(text) else json.dumps(text)
