"""Tests of the log of a server command: signals change its levels while it runs."""

import asyncio
import io
import logging
import os
import signal
from collections.abc import Iterator

import pytest

from rhumbline.cli import server_log as module
from rhumbline.cli.server_log import server_log
from rhumbline.client.settings import LogSettings
from rhumbline.core.protocol.errors import ConfigurationError
from rhumbline.core.runtime.event_log import EventLog
from rhumbline.server.process_log import ProcessLog

LOG = EventLog("rhumbline.core.sample")


@pytest.fixture
def stream(monkeypatch: pytest.MonkeyPatch) -> Iterator[io.StringIO]:
    written = io.StringIO()
    log = ProcessLog("command", written)
    monkeypatch.setattr(module, "PROCESS_LOG", log)
    with log.installed():
        yield written


def events(stream: io.StringIO) -> list[str]:
    """Return level and first words of each line."""
    return [" ".join(line.split()[1:5]) for line in stream.getvalue().splitlines()]


async def send(number: signal.Signals) -> None:
    os.kill(os.getpid(), number)
    await asyncio.sleep(0.05)


async def test_a_second_signal_ends_debugging(stream: io.StringIO) -> None:
    with server_log("b-1", LogSettings()):
        LOG.debug("detail one")
        await send(signal.SIGUSR2)
        LOG.debug("detail two")
        await send(signal.SIGUSR2)
        LOG.debug("detail three")
    assert [line for line in events(stream) if "rhumbline.cli" not in line.split()[-1]] == [
        "INFO b-1 debugging began",
        "DEBUG b-1 detail two",
        "INFO b-1 debugging ended",
    ]


async def test_a_signal_reads_the_settings_again(stream: io.StringIO) -> None:
    found = [LogSettings(level="warning"), LogSettings()]

    def read_again() -> LogSettings:
        if not found:
            raise ConfigurationError("log.level: no such level")
        return found.pop()

    with server_log("b-1", LogSettings(), read_again):
        await send(signal.SIGUSR1)
        LOG.info("first line")
        await send(signal.SIGUSR1)
        LOG.info("second line")
        await send(signal.SIGUSR1)
        LOG.warning("third line")
    # The line about the second settings is itself below the new level.
    assert events(stream) == [
        "INFO b-1 log settings",
        "INFO b-1 first line",
        "ERROR b-1 log settings",
        "WARNING b-1 third line",
    ]
    assert " log settings read lowest=info format=text [" in stream.getvalue()
    assert " log settings refused error=" in stream.getvalue()
    assert "no such level" in stream.getvalue()


async def test_exceptions_that_nobody_awaits_are_logged(stream: io.StringIO) -> None:
    async def fail() -> None:
        raise ValueError("impossible")

    with server_log("b-1", LogSettings(format="json")):
        task = asyncio.get_running_loop().create_task(fail(), name="scrub")
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert task.done()
        del task
        await asyncio.sleep(0)
    assert '"event": "background task failed"' in stream.getvalue()
    assert '"error": "ValueError: impossible"' in stream.getvalue()


@pytest.mark.parametrize("level", ["loud", "INFO", ""])
def test_levels_are_checked(level: str) -> None:
    with pytest.raises(ConfigurationError, match="log: level="):
        LogSettings(level=level)
    with pytest.raises(ConfigurationError, match=r"core\.ledger: .* is not one of debug, info"):
        LogSettings(levels=(("core.ledger", level),))
    assert logging.getLogger("rhumbline.core.ledger").level == logging.NOTSET
