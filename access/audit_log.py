"""Writes audit events to a file or to standard error, by a thread of its own."""

import sys
import threading
import time
from pathlib import Path
from typing import Any

from ..core.protocol.errors import ConfigurationError
from ..core.runtime.event_log import EventLog, LogLimit
from ..security.audit import REPEAT_S, AuditEvent, AuditQueue
from ..security.audit_settings import STDERR, AuditSettings
from .rotating_file import RotatingFile

_LOG = EventLog(__name__)

_CLOSE_SECONDS_MAX = 5.0


class AuditLog:
    """The audit log of a process, until ``close``. Implements AuditSink; may be used by any thread.

    Recording never waits for the file: if the file is slower than the events, lines are dropped and
    counted (rule SEC-22).
    """

    def __init__(self, settings: AuditSettings, source: str) -> None:
        """``source`` names the process in each line. Raises ConfigurationError."""
        self._queue = AuditQueue(source, settings.queue_lines_max)
        self._file = _opened(settings)
        self._lock = threading.Lock()
        self._wake = threading.Event()
        self._is_closing = False
        self._written_count = 0
        self._lost_count = 0
        self._limit = LogLimit()
        self._thread = threading.Thread(target=self._run, name="audit log", daemon=True)
        self._thread.start()

    def record(self, event: AuditEvent) -> None:
        """See AuditSink."""
        with self._lock:
            has_line = self._queue.add(event, _wall_ms(), time.monotonic())
        if has_line:
            self._wake.set()

    def statistics(self) -> dict[str, Any]:
        """Return the counters."""
        return {"lines": self._written_count, "dropped": self._dropped_count}

    def close(self) -> None:
        """Write what waits, for a bounded time. Safe to repeat."""
        self._is_closing = True
        self._wake.set()
        self._thread.join(_CLOSE_SECONDS_MAX)

    @property
    def _dropped_count(self) -> int:
        return self._queue.dropped_count + self._lost_count

    def _run(self) -> None:
        while not self._is_closing:
            self._wake.wait(REPEAT_S if self._queue.has_repeated else None)
            self._wake.clear()
            self._write_waiting()
        self._write_waiting(is_last=True)
        if self._file is not None:
            self._file.close()

    def _write_waiting(self, *, is_last: bool = False) -> None:
        with self._lock:
            if is_last:
                lines = self._queue.finish(_wall_ms())
            else:
                lines = self._queue.take(_wall_ms(), time.monotonic())
        if not lines:
            return
        try:
            if self._file is None:
                sys.stderr.write(b"".join(lines).decode())
                sys.stderr.flush()
            else:
                self._file.append(b"".join(lines))
        except (OSError, ValueError) as error:  # ValueError: standard error is closed
            self._lost_count += len(lines)
            dropped = self._limit.admit(time.monotonic())
            if dropped is not None:
                _LOG.error("audit log not written", error=error, lines=len(lines))
            return
        self._written_count += len(lines)


def audit_log_of(settings: AuditSettings, source: str) -> AuditLog | None:
    """Return the audit log that the settings describe; None without one.

    Raises ConfigurationError.
    """
    return AuditLog(settings, source) if settings.file else None


def _opened(settings: AuditSettings) -> RotatingFile | None:
    if settings.file == STDERR:
        return None
    try:
        return RotatingFile(
            Path(settings.file),
            bytes_max=settings.file_bytes_max,
            kept=settings.files_kept,
            syncs=settings.sync,
        )
    except OSError as error:
        raise ConfigurationError(f"audit.file: {settings.file}: {error.strerror}") from error


def _wall_ms() -> int:
    return time.time_ns() // 1_000_000
