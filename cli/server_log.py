"""The log of a server command: its settings, and the signals that change its levels.

SIGUSR1 reads section [log] of the settings again. SIGUSR2 logs everything, or returns to the
configured levels.
"""

import asyncio
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from ..client.settings import LogSettings
from ..core.protocol.errors import ConfigurationError
from ..core.runtime.event_log import EventLog
from ..server.process_log import PROCESS_LOG, ProcessLog

_LOG = EventLog(__name__)


@contextmanager
def server_log(
    source: str, settings: LogSettings, read_again: Callable[[], LogSettings] | None = None
) -> Iterator[ProcessLog]:
    """Log as a server until the block ends; the event loop must be running.

    ``source`` names the process in its lines, until the caller sets a better name. ``read_again``
    reads the settings again.
    """
    log, loop = PROCESS_LOG, asyncio.get_running_loop()
    log.source = source
    _configure(log, settings)

    def reload() -> None:
        try:
            found = settings if read_again is None else read_again()
        except ConfigurationError as error:
            _LOG.error("log settings refused", error=error)
            return
        _configure(log, found)
        _LOG.info("log settings read", lowest=found.level, format=found.format)

    def toggle() -> None:
        if log.toggle_debugging():
            _LOG.info("debugging began")
        else:
            _LOG.info("debugging ended")

    loop.set_exception_handler(log.log_failure)
    loop.add_signal_handler(signal.SIGUSR1, reload)
    loop.add_signal_handler(signal.SIGUSR2, toggle)
    try:
        yield log
    finally:
        loop.remove_signal_handler(signal.SIGUSR1)
        loop.remove_signal_handler(signal.SIGUSR2)
        loop.set_exception_handler(None)


def _configure(log: ProcessLog, settings: LogSettings) -> None:
    log.configure(settings.level, settings.format, settings.levels)
