"""The page of log lines lists exactly the lines of the code, and no line is unsafe."""

import logging
import re

from rhumbline.core.runtime.event_log import RESERVED_FIELDS
from rhumbline.tests.support.tidy import log_events, source_tree

PAGE = source_tree.ROOT / "docs" / "how-to" / "read-the-logs.md"
SECRETS = ("auth", "credential", "key", "password", "payload", "secret", "token")
RECORD = logging.LogRecord("", 0, "", 0, "", None, None).__dict__


def documented_lines() -> tuple[log_events.LogLine, ...]:
    """Return the lines of the page's table."""
    found = []
    for row in PAGE.read_text(encoding="utf-8").partition("## All events")[2].splitlines():
        cells = [cell.strip() for cell in row.strip("|").split("|")]
        if len(cells) == 5 and cells[1] in log_events.LEVELS:
            event, level, logger, fields, meaning = cells
            assert meaning.endswith("."), event
            names = tuple(re.findall(r"`(\w+)`", fields))
            found.append(log_events.LogLine(event, level, logger.strip("`"), names))
    return tuple(sorted(found))


def test_the_page_lists_every_line_of_the_code() -> None:
    in_code = log_events.all_lines()
    assert len(in_code) > 50
    assert documented_lines() == in_code


def test_each_event_has_one_level_and_one_place() -> None:
    events = [line.event for line in log_events.all_lines()]
    assert sorted(set(events)) == events


def test_events_are_short_and_ids_are_fields() -> None:
    for line in log_events.all_lines():
        assert 2 <= len(line.event.split()) <= 4, line.event
        assert re.fullmatch(r"[a-z -]+", line.event), line.event


def test_fields_do_not_hide_attributes_of_a_record() -> None:
    for line in log_events.all_lines():
        taken = [name for name in line.fields if name in RECORD or name in RESERVED_FIELDS]
        assert not taken, f"{line.event}: {taken}"


def test_no_field_is_a_secret_or_data_of_a_user() -> None:
    for line in log_events.all_lines():
        secret = [name for name in line.fields if any(part in name for part in SECRETS)]
        assert not secret, f"{line.event}: {secret}"


def test_each_event_is_expected_by_a_test() -> None:
    tests = source_tree.ROOT / "tests"
    text = "".join(
        path.read_text(encoding="utf-8")
        for path in sorted(tests.rglob("test_*.py"))
        if path.name != "test_event_log.py"
    )
    missing = [line.event for line in log_events.all_lines() if line.event not in text]
    assert not missing, "no test expects these lines"
