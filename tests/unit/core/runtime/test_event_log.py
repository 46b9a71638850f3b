"""Tests of log lines: the event first, ids as fields, bounded in size and number."""

import json
import logging

import pytest

from rhumbline.core.ledger.write.writer_life import LEDGER_WRITER, WriterEvent
from rhumbline.core.protocol.errors import BookieUnavailableError
from rhumbline.core.runtime.event_log import EventLog, LogLimit, event_text
from rhumbline.core.runtime.state_machine import StateMachine

LOG = EventLog("rhumbline.sample")


def test_fields_are_in_the_message_and_are_attributes_of_the_record(
    caplog: pytest.LogCaptureFixture,
) -> None:
    LOG.warning("ensemble changed", ledger=7, removed=["b-1", "b-2"], note=None)
    (record,) = caplog.records
    assert record.getMessage() == "ensemble changed ledger=7 removed=b-1,b-2"
    assert (record.name, record.levelno) == ("rhumbline.sample", logging.WARNING)
    assert record.__dict__["event"] == "ensemble changed"
    assert record.__dict__["ledger"] == 7
    assert record.__dict__["event_fields"] == {"ledger": 7, "removed": ["b-1", "b-2"]}


def test_errors_are_named_by_their_class(caplog: pytest.LogCaptureFixture) -> None:
    LOG.error("repair stuck", error=BookieUnavailableError("b-1 is silent"))
    assert caplog.messages == ['repair stuck error="BookieUnavailableError: b-1 is silent"']


def test_a_line_about_a_machine_ends_with_its_story(caplog: pytest.LogCaptureFixture) -> None:
    machine = StateMachine(LEDGER_WRITER, "7", now=lambda: 1.5)
    LOG.warning("ledger writer failed", machine=machine, ledger=7)
    machine.take(WriterEvent.FAIL, "fenced")
    LOG.warning("ledger writer failed", machine=machine, ledger=7)
    LOG.error("ledger writer failed", machine=machine)
    story = 'story="1.500 s: OPEN -> FAILED by FAIL (fenced)"'
    assert caplog.messages == [
        "ledger writer failed ledger=7",
        f"ledger writer failed ledger=7 {story}",
        f"ledger writer failed {story}",
    ]
    assert caplog.records[1].__dict__["story"] == "1.500 s: OPEN -> FAILED by FAIL (fenced)"


@pytest.mark.parametrize("value", ["two\nlines", 'a "quote"', "\x1b[31m", "a = b", "", "\u2028"])
def test_a_line_has_no_line_break_and_no_control_characters(value: str) -> None:
    text = event_text("event", {"field": value})
    assert text.isprintable()
    assert text == f"event field={json.dumps(value)}"


def test_long_values_are_cut(caplog: pytest.LogCaptureFixture) -> None:
    LOG.warning("event", field="x" * 10_000)
    assert len(caplog.messages[0]) < 500
    assert caplog.messages[0].endswith("...")


def test_nothing_is_computed_for_a_level_that_is_off() -> None:
    class Unprintable:
        def __str__(self) -> str:
            raise AssertionError("formatted in vain")

    logging.getLogger("rhumbline.sample").setLevel(logging.ERROR)
    try:
        LOG.debug("event", field=Unprintable())
        LOG.info("event", field=Unprintable())
        LOG.warning("event", field=Unprintable())
    finally:
        logging.getLogger("rhumbline.sample").setLevel(logging.NOTSET)


def test_a_limit_admits_one_line_in_an_interval_and_counts_the_others() -> None:
    limit = LogLimit(interval_ms=1_000)
    assert [limit.admit(now) for now in (0.0, 0.1, 0.9, 1.0, 1.5, 2.5)] == [
        0,
        None,
        None,
        2,
        None,
        1,
    ]


def test_a_limit_treats_each_key_separately_and_remembers_few() -> None:
    limit = LogLimit()
    assert [limit.admit(0.0, str(key)) for key in range(1_000)] == [0] * 1_000
    assert limit.admit(0.0, "999") is None
    assert limit.admit(0.0, "0") == 0  # forgotten
