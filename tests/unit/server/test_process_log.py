"""Tests of the log of a process: text, JSON, other libraries, levels, background errors."""

import asyncio
import io
import json
import logging
import re
from collections.abc import Iterator

import pytest

from rhumbline.core.protocol.errors import InvariantBrokenError
from rhumbline.core.runtime.event_log import EventLog
from rhumbline.server.process_log import ProcessLog

LOG = EventLog("rhumbline.core.sample")
TEXT_LINE = re.compile(
    r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z WARNING b-1 ensemble changed ledger=7 "
    r"added=b-3,b-4 \[rhumbline\.core\.sample\]"
)


class Sample:
    """An installed log with what it wrote."""

    def __init__(self) -> None:
        self.stream = io.StringIO()
        self.log = ProcessLog("b-1", self.stream)

    def lines(self) -> list[str]:
        """Return the lines that were written."""
        return self.stream.getvalue().splitlines()


@pytest.fixture
def sample() -> Iterator[Sample]:
    made = Sample()
    with made.log.installed():
        made.log.configure("info")
        yield made


def test_a_text_line_has_time_level_source_event_fields_and_logger(sample: Sample) -> None:
    LOG.warning("ensemble changed", ledger=7, added=["b-3", "b-4"])
    (line,) = sample.lines()
    assert TEXT_LINE.fullmatch(line)


def test_a_json_line_is_an_object_with_the_ids(sample: Sample) -> None:
    sample.log.configure("info", "json")
    LOG.warning("ensemble changed", ledger=7, added=["b-3", 'b"4'])
    found = json.loads(sample.lines()[0])
    assert found.pop("time").endswith("Z")
    assert found == {
        "level": "warning",
        "source": "b-1",
        "event": "ensemble changed",
        "ledger": 7,
        "added": ["b-3", 'b"4'],
        "logger": "rhumbline.core.sample",
    }


def test_levels_of_single_loggers(sample: Sample) -> None:
    other = EventLog("rhumbline.regions.sample")
    sample.log.configure("warning", levels=[("core", "debug")])
    LOG.debug("first")
    other.info("second")
    sample.log.configure("info")
    LOG.debug("third")
    other.info("fourth")
    assert [line.split()[3] for line in sample.lines()] == ["first", "fourth"]


def test_debugging_is_turned_on_and_off(sample: Sample) -> None:
    sample.log.configure("error", levels=[("core", "warning")])
    assert sample.log.toggle_debugging()
    LOG.debug("first")
    assert not sample.log.toggle_debugging()
    LOG.info("second")
    LOG.warning("third")
    assert [line.split()[3] for line in sample.lines()] == ["first", "third"]


def test_a_removed_log_leaves_the_levels_as_they_were(sample: Sample) -> None:
    made = Sample()
    with made.log.installed():
        made.log.configure("debug", levels=[("core.sample", "debug")])
    assert logging.getLogger("rhumbline.core.sample").level == logging.NOTSET
    assert made.log not in logging.getLogger().handlers


@pytest.mark.parametrize("name", ["kazoo.client", "grpc._channel", "py4j.java_gateway"])
def test_a_library_is_reduced_to_one_line(name: str, sample: Sample) -> None:
    for _ in range(100):
        logging.getLogger(name).error("connection dropped\nTraceback ...\n  more")
        logging.getLogger(name).info("connecting")
    (line,) = sample.lines()
    library = name.split(".", maxsplit=1)[0]
    assert f"WARNING b-1 library reported a problem library={library} " in line
    assert 'text="connection dropped" [rhumbline.libraries]' in line


def test_a_command_shows_no_warnings_of_libraries(sample: Sample) -> None:
    sample.log.configure("error")
    logging.getLogger("kazoo.client").error("connection dropped")
    assert not sample.lines()


async def test_an_exception_that_nobody_awaits_has_one_line_and_its_traceback(
    sample: Sample,
) -> None:
    async def fail() -> None:
        raise InvariantBrokenError("impossible", "0.1 s: A -> B by GO")

    sample.log.configure("info", "json")
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(sample.log.log_failure)
    for _ in range(100):
        task = loop.create_task(fail(), name="scrub")
        await asyncio.wait((task,))
        context = {"message": "task failed", "exception": task.exception(), "task": task}
        loop.call_exception_handler(context)
    (line,) = sample.lines()
    found = json.loads(line)
    assert (found["event"], found["task"]) == ("background task failed", "scrub")
    assert found["story"] == "0.1 s: A -> B by GO"
    assert "raise InvariantBrokenError" in found["traceback"]


def test_a_full_or_closed_stream_does_not_fail_the_caller(
    sample: Sample, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logging, "raiseExceptions", False)
    sample.stream.close()
    LOG.warning("event")
