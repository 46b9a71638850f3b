"""Appends each line of an audit log to a stream once; waits while the stream is unavailable."""

import asyncio
from contextlib import suppress
from random import Random

from ..core.log.api.log_writer import LogWriter
from ..core.log.namespace import Namespace
from ..core.protocol.errors import (
    DeadlineExceededError,
    DuplicateRecordError,
    NoSuchStreamError,
    RhumblineError,
    SequenceGapError,
    StreamExistsError,
    UnavailableError,
    UnknownOutcomeError,
)
from ..core.runtime.event_log import EventLog
from ..core.runtime.primitives.backoff import Backoff
from .audit_follower import AuditFollower, AuditLines

_LOG = EventLog(__name__)

_POLL_S = 0.5
_STEP_S_MAX = 60.0
"""Longest time to open a writer, or to append lines, before the step is retried."""
_RETRY_MS_MIN = 500
_RETRY_MS_MAX = 30_000


class AuditForwarder:
    """Forwards until it is cancelled, or, with ``ends``, until all lines are in the stream.

    It holds one batch of lines at a time; the files of the audit log are its queue.
    """

    def __init__(
        self,
        follower: AuditFollower,
        namespace: Namespace,
        stream: str,
        random: Random,
        *,
        ends: bool,
    ) -> None:
        self.line_count = 0
        """Number of lines that were appended."""
        self._follower = follower
        self._namespace = namespace
        self._stream = stream
        self._ends = ends
        self._backoff = Backoff(random, _RETRY_MS_MIN, _RETRY_MS_MAX)

    async def run(self) -> None:
        """Forward. With ``ends`` it raises any error, otherwise those that a retry cannot repair.

        Lines that were not acknowledged are appended again, under the same numbers.
        """
        while True:
            try:
                await self._run_with_writer()
                return
            except RhumblineError as error:
                if self._ends or not (error.retryable or isinstance(error, UnknownOutcomeError)):
                    raise
                if self._backoff.failures == 0:
                    _LOG.warning("audit forwarding interrupted", stream=self._stream, error=error)
            await self._backoff.pause()

    async def _run_with_writer(self) -> None:
        try:
            async with asyncio.timeout(_STEP_S_MAX):
                writer = await self._open_writer()
        except TimeoutError as error:
            raise _late("no writer of the audit stream") from error
        async with writer:
            await self._append_lines(writer)

    async def _open_writer(self) -> LogWriter:
        """Create the stream only if it is missing: the forwarder may lack the permission."""
        try:
            return await self._namespace.open_writer(self._stream)
        except NoSuchStreamError:
            with suppress(StreamExistsError):
                await self._namespace.create_stream(self._stream)
            return await self._namespace.open_writer(self._stream)

    async def _append_lines(self, writer: LogWriter) -> None:
        has_paused = False
        while True:
            lines = await asyncio.to_thread(self._follower.read)
            if lines is not None:
                await self._append(writer, lines)
                await asyncio.to_thread(self._follower.commit)
                self.line_count += len(lines.lines)
                has_paused = False
            elif self._ends and has_paused:  # a renamed file is read twice before the next one
                return
            else:
                has_paused = True
                await asyncio.sleep(0 if self._ends else _POLL_S)

    async def _append(self, writer: LogWriter, lines: AuditLines) -> None:
        """Append lines with their numbers; those that the stream already has are not appended."""
        try:
            async with asyncio.timeout(_STEP_S_MAX):
                await writer.append_numbered(*lines)
        except DuplicateRecordError:
            pass  # an earlier attempt succeeded
        except SequenceGapError:
            self._follower.renumber()  # the stream was restored from an older copy
            raise UnavailableError("the audit stream does not have the last lines") from None
        except TimeoutError as error:
            raise _late("audit lines were not acknowledged") from error
        if self._backoff.failures:
            self._backoff.reset()
            _LOG.info("audit forwarding resumed", stream=self._stream)


def _late(message: str) -> DeadlineExceededError:
    return DeadlineExceededError(f"{message} within {_STEP_S_MAX:g} s")
