"""The log of simulated processes, in virtual time.

A record gets the time of the loop and the name of its host. Lines go to the trace as details, which
are shown but are not part of its fingerprint.
"""

import logging
from collections import deque

from .process import PROCESS
from .trace import Trace

_KEPT = 1_000
"""Number of records that are kept for tests."""


class SimulatedLog(logging.Handler):
    """Receives the records of one simulated world between ``open`` and ``end``."""

    def __init__(self, trace: Trace) -> None:
        super().__init__(logging.INFO)
        self.records: deque[logging.LogRecord] = deque(maxlen=_KEPT)
        self._trace = trace
        self._logger = logging.getLogger("rhumbline")
        self._old_level = logging.NOTSET

    def open(self) -> None:
        """Begin to receive records."""
        self._old_level = self._logger.level
        self._logger.setLevel(logging.INFO)
        self._logger.addHandler(self)

    def end(self) -> None:
        """Stop receiving records."""
        self._logger.removeHandler(self)
        self._logger.setLevel(self._old_level)

    def emit(self, record: logging.LogRecord) -> None:
        """See logging.Handler."""
        process = PROCESS.get()
        record.created = self._trace.now_s()
        record.__dict__["source"] = "world" if process is None else process.node
        self.records.append(record)
        if self._trace.is_detailed:
            self._trace.detail(
                record.__dict__["source"], f"{record.levelname} {record.getMessage()}"
            )
