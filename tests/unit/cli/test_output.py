"""Tables and progress: whole lines for programs, and the screen's width on terminals."""

import asyncio
import io
import json
import sys
from collections.abc import Callable, Iterator

import click
import pytest

from rhumbline.cli.output import (
    DocumentWriter,
    ProgressBar,
    format_table,
    iso_time,
    print_done,
    print_message,
    print_record,
    print_rows,
)
from rhumbline.cli.output_events import EVENTS
from rhumbline.cli.output_form import select_form
from rhumbline.cli.output_schema import faults, prints, record, text

ROWS = [
    {"name": "[bold] :smile:", "count": 7, "regions": ("eu", "us")},
    {"name": "x" * 300, "count": 1000, "regions": ()},
]


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_tables_for_programs_are_never_wrapped_or_styled() -> None:
    head, first, second = format_table(ROWS).splitlines()
    assert head.split() == ["NAME", "COUNT", "REGIONS"]
    assert first.split("  ")[0] == "[bold] :smile:"
    assert first.endswith("    7  eu, us")
    assert second == "x" * 300 + "   1000"


def test_a_table_on_a_terminal_fits_its_width(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(sys, "stdout", terminal := Terminal())
    print_rows(ROWS, "table", empty="none")
    lines = click.unstyle(terminal.getvalue()).splitlines()
    assert max(map(len, lines)) <= 60
    assert sum(line.count("x") for line in lines) == 300


def test_records_and_json(capsys: pytest.CaptureFixture[str]) -> None:
    print_record({"a": {"b": True, "c": {}}, "long_name": None}, "table")
    assert capsys.readouterr().out == "a.b        yes\na.c        -\nlong name  -\n"
    print_rows(ROWS, "json", empty="none")
    assert json.loads(capsys.readouterr().out)[0]["count"] == 7
    print_rows([], "table", empty="none")
    assert capsys.readouterr().out == "none\n"


def test_tables_show_the_units_that_keys_promise(capsys: pytest.CaptureFixture[str]) -> None:
    row = {"free_bytes": 1 << 20, "took_ms": 1400, "rate_bytes_per_second": 2048, "bytes": None}
    print_rows([row], "table", empty="none")
    head, cells = capsys.readouterr().out.splitlines()
    assert head.split() == ["FREE", "TOOK", "RATE", "BYTES"]
    assert " ".join(cells.split()) == "1.0 MiB 1.4 s 2.0 KiB/s -"


def test_documents_are_whole_under_json_and_lines_under_jsonl(
    capsys: pytest.CaptureFixture[str],
) -> None:
    print_rows(ROWS, "jsonl", empty="none")
    assert [json.loads(line)["count"] for line in capsys.readouterr().out.splitlines()] == [7, 1000]
    print_rows([], "json", empty="none")
    assert json.loads(capsys.readouterr().out) == []
    for count in range(3):
        with DocumentWriter("json") as writer:
            for number in range(count):
                writer.write([{"number": number}])
        assert json.loads(capsys.readouterr().out) == [{"number": n} for n in range(count)]


def test_a_document_that_differs_from_its_schema_is_never_printed(
    capsys: pytest.CaptureFixture[str],
) -> None:
    @click.command()
    @prints(record({"name": text("Name.")}))
    def command() -> None:
        print_record({"naem": "typo"}, "json")

    with pytest.raises(AssertionError, match=r"name is missing; .*naem is not declared"):
        command.main([], standalone_mode=False)
    assert capsys.readouterr().out == ""


def test_changes_are_messages_for_people_and_documents_for_programs(
    capsys: pytest.CaptureFixture[str],
) -> None:
    print_done({"stream": "s"}, "table", "stream s was created")
    assert capsys.readouterr() == ("", "stream s was created\n")
    print_done({"stream": "s"}, "jsonl", "stream s was created")
    found = capsys.readouterr()
    assert json.loads(found.out) == {"stream": "s", "message": "stream s was created"}
    assert found.err == ""


def test_every_line_on_stderr_is_an_event_for_programs(
    capsys: pytest.CaptureFixture[str],
    form: Callable[[str], None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    form("json")
    print_message("a remark")
    with ProgressBar() as progress:
        progress.show("copying", 1, 4)
        monkeypatch.setattr("rhumbline.cli.output._EVENT_S", 0)
        progress.show("copying", 2, 4)
    events = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    assert [event["event"] for event in events] == ["message", "progress"], (
        "not in the first second"
    )
    for event in events:
        assert list(faults(event, EVENTS[event["event"]])) == []


@pytest.fixture
def form() -> Iterator[Callable[[str], None]]:
    """Selects the format of this process until the test ends."""
    yield select_form
    select_form("table")


def test_times_are_iso_8601_in_utc() -> None:
    assert iso_time(1_700_000_000_123) == "2023-11-14T22:13:20.123Z"
    assert iso_time(None) is None


async def test_progress_appears_by_itself_when_a_step_takes_long(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(sys, "stderr", terminal := Terminal())
    monkeypatch.setattr("rhumbline.cli.output._QUIET_S", 0.05)
    with ProgressBar() as progress:
        progress.show("one long step")
        assert terminal.getvalue() == "", "a quick command shows nothing"
        await asyncio.sleep(0.2)
    assert "one long step" in click.unstyle(terminal.getvalue())


def test_progress_is_shown_on_terminals_and_cleared_after_errors(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with ProgressBar() as progress:
        progress.show("step 1", 1, 2)
    assert capsys.readouterr() == ("", "")
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(sys, "stderr", terminal := Terminal())
    monkeypatch.setattr("rhumbline.cli.output._QUIET_S", 0)
    with pytest.raises(ValueError, match="stop"), ProgressBar() as progress:
        progress.show("step [1]", 1, 2)
        raise ValueError("stop")
    assert "step [1]" in click.unstyle(terminal.getvalue())
    assert terminal.getvalue().endswith("\x1b[?25h\r\x1b[1A\x1b[2K")  # cursor back, line erased
