"""Tables and progress: whole lines for programs, and the screen's width on terminals."""

import io
import json
import sys

import click
import pytest

from rhumbline.cli.output import ProgressBar, format_table, print_record, print_rows

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
    print_record({"a": {"b": True, "c": {}}, "long name": None}, "table")
    assert capsys.readouterr().out == "a.b        yes\na.c        -\nlong name  -\n"
    print_rows(ROWS, "json", empty="none")
    assert json.loads(capsys.readouterr().out)[0]["count"] == 7
    print_rows([], "table", empty="none")
    assert capsys.readouterr().out == "none\n"


def test_progress_is_shown_on_terminals_and_cleared_after_errors(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with ProgressBar() as progress:
        progress.show("step 1", 1, 2)
    assert capsys.readouterr() == ("", "")
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(sys, "stderr", terminal := Terminal())
    with pytest.raises(ValueError, match="stop"), ProgressBar() as progress:
        progress.show("step [1]", 1, 2)
        raise ValueError("stop")
    assert "step [1]" in click.unstyle(terminal.getvalue())
    assert terminal.getvalue().endswith("\x1b[?25h\r\x1b[1A\x1b[2K")  # cursor back, line erased
