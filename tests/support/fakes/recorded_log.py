"""Records the log lines of a test."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


class RecordedLog(logging.Handler):
    """The records of Rhumbline, in order."""

    def __init__(self) -> None:
        super().__init__()
        self.records: list[logging.LogRecord] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.records.append(record)

    def events(self, **fields: object) -> list[str]:
        """Return the events, of all records or of those with these fields."""
        return [
            record.__dict__["event"]
            for record in self.records
            if fields.items() <= _fields_of(record).items()
        ]

    def fields(self, event: str) -> list[dict[str, Any]]:
        """Return the fields of each record of an event."""
        return [_fields_of(r) for r in self.records if r.__dict__["event"] == event]


def _fields_of(record: logging.LogRecord) -> dict[str, Any]:
    fields = record.__dict__["event_fields"]
    assert isinstance(fields, dict)
    return {
        name: tuple(value) if isinstance(value, list) else value for name, value in fields.items()
    }


@contextmanager
def recorded_log(name: str = "rhumbline") -> Iterator[RecordedLog]:
    """Record the lines of the logger ``name`` and those below it."""
    log, logger = RecordedLog(), logging.getLogger(name)
    old = logger.level
    logger.addHandler(log)
    logger.setLevel(logging.INFO)
    try:
        yield log
    finally:
        logger.removeHandler(log)
        logger.setLevel(old)
