"""The log of a process: lines of text or JSON on stderr, levels that can change while it runs.

Records of Rhumbline are written as they are. Records of other libraries (kazoo, grpc, asyncio, ...)
are reduced to one line each, ``library reported a problem``, and repetitions are counted instead.
Short commands log errors only, so that their stderr stays readable; ``log.level`` as an option
changes that.
"""

import asyncio
import json
import logging
import os
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any, TextIO

from ..core.protocol.errors import InvariantBrokenError
from ..core.runtime.event_log import EventLog, LogLimit, event_text
from ..core.runtime.state_machine import story_line

ROOT = "rhumbline"
_LIBRARIES = f"{ROOT}.libraries"
_TEXT_CHARS_MAX = 300

_LOG = EventLog(__name__)


class ProcessLog(logging.Handler):
    """Writes the records of this process to stderr. Only one is installed at a time.

    ``source`` names the process in each line, for example by the id of its bookie.
    """

    def __init__(self, source: str = "", stream: TextIO | None = None) -> None:
        super().__init__()
        self.source = source
        self._stream = stream
        self._is_json = False
        self._level = "error"
        self._levels: tuple[tuple[str, str], ...] = ()
        self._is_debugging = False
        self._library_limit = LogLimit()
        self._failure_limit = LogLimit()

    # --- levels ---------------------------------------------------------------------------------

    def configure(
        self, level: str, line_format: str = "text", levels: Sequence[tuple[str, str]] = ()
    ) -> None:
        """Set the level, the format, and the levels of single loggers. Safe to repeat."""
        self._reset_levels()
        self._level, self._levels = level, tuple(levels)
        self._is_json = line_format == "json"
        self._apply()

    def toggle_debugging(self) -> bool:
        """Log everything of Rhumbline, or return to the configured levels. Return which."""
        self._is_debugging = not self._is_debugging
        self._apply()
        return self._is_debugging

    def _apply(self) -> None:
        chosen = "debug" if self._is_debugging else self._level
        logging.getLogger(ROOT).setLevel(chosen.upper())
        for name, level in self._levels:
            one = logging.NOTSET if self._is_debugging else level.upper()
            logging.getLogger(f"{ROOT}.{name}").setLevel(one)

    def _reset_levels(self) -> None:
        for name, _ in self._levels:
            logging.getLogger(f"{ROOT}.{name}").setLevel(logging.NOTSET)
        logging.getLogger(ROOT).setLevel(logging.NOTSET)

    @contextmanager
    def installed(self) -> Iterator[None]:
        """Receive all records of the process until the block ends."""
        os.environ.setdefault("GRPC_VERBOSITY", "NONE")  # gRPC's core writes to stderr by itself
        root = logging.getLogger()
        root.addHandler(self)
        self._apply()
        try:
            yield
        finally:
            root.removeHandler(self)
            self._reset_levels()

    # --- lines ----------------------------------------------------------------------------------

    def emit(self, record: logging.LogRecord) -> None:
        """See logging.Handler."""
        try:
            line = self.line_of(record)
            if line is not None:
                stream = self._stream or sys.stderr
                stream.write(f"{line}\n")
                stream.flush()
        except Exception:  # a log must not fail its caller
            self.handleError(record)

    def line_of(self, record: logging.LogRecord) -> str | None:
        """Return the line of a record without its end; None if the record is left out."""
        if record.name.split(".")[0] == ROOT:
            fields = getattr(record, "event_fields", {})
            event = getattr(record, "event", None) or record.getMessage()
            return self._line(record.name, record.levelno, event, fields, record)
        return self._library_line(record)

    def _library_line(self, record: logging.LogRecord) -> str | None:
        library = record.name.split(".")[0]
        level = record.levelno if library == "asyncio" else min(record.levelno, logging.WARNING)
        if level < logging.WARNING or level < logging.getLogger(_LIBRARIES).getEffectiveLevel():
            return None
        dropped = self._library_limit.admit(time.monotonic(), library)
        if dropped is None:
            return None
        text = record.getMessage().partition("\n")[0]
        if record.exc_info and record.exc_info[1] is not None:
            text += f": {type(record.exc_info[1]).__name__}: {record.exc_info[1]}"
        fields = {
            "library": library,
            "text": text[:_TEXT_CHARS_MAX],
            **({"dropped": dropped} if dropped else {}),
        }
        return self._line(_LIBRARIES, level, "library reported a problem", fields, record)

    def _line(
        self,
        logger: str,
        level: int,
        event: str,
        fields: dict[str, Any],
        record: logging.LogRecord,
    ) -> str:
        at = datetime.fromtimestamp(record.created, UTC)
        stamp = f"{at:%Y-%m-%dT%H:%M:%S}.{at.microsecond // 1000:03d}Z"
        name = logging.getLevelName(level)
        trace = ""
        if record.exc_info and logger != _LIBRARIES:
            trace = logging.Formatter().formatException(record.exc_info)
        if self._is_json:
            head = {"time": stamp, "level": name.lower(), "source": self.source, "event": event}
            tail = {"logger": logger, **({"traceback": trace} if trace else {})}
            return json.dumps({**head, **fields, **tail})
        line = f"{stamp} {name:<7} {self.source} {event_text(event, fields)} [{logger}]"
        return f"{line}\n{trace}" if trace else line

    # --- background errors ----------------------------------------------------------------------

    def log_failure(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """Log an exception that nobody awaits; for ``loop.set_exception_handler``."""
        error = context.get("exception")
        task = context.get("task") or context.get("future")
        name = task.get_name() if isinstance(task, asyncio.Task) else None
        text = context.get("message", "unknown")
        dropped = self._failure_limit.admit(loop.time(), f"{name} {type(error).__name__}")
        if dropped is None:
            return
        shown = error if error is None or isinstance(error, BaseException) else str(error)
        story = story_line(error.story) if isinstance(error, InvariantBrokenError) else None
        _LOG.error(
            "background task failed",
            exception=error if isinstance(error, BaseException) else None,
            task=name,
            context=text,
            error=shown,
            story=story or None,
            dropped=dropped or None,
        )


PROCESS_LOG = ProcessLog("command")
"""The log of this process if it is a command or a server of the command line."""
