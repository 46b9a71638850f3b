"""The input of the demo: a file, standard input, or a log file of this host."""

import hashlib
import io
from pathlib import Path

import pytest

from rhumbline.cli.demo import source
from rhumbline.cli.demo.source import find_log, open_source
from rhumbline.core.protocol.errors import InvalidArgumentError
from rhumbline.core.protocol.record_set import RECORD_BYTES_MAX

NOTHING = io.BytesIO()


def test_file_is_counted_and_its_lines_join_to_it(tmp_path: Path) -> None:
    text = b"one\n\ntwo\r\nlast line without an end"
    (tmp_path / "in").write_bytes(text)
    found = open_source(str(tmp_path / "in"), NOTHING, tmp_path)
    assert (found.line_count, found.size) == (4, len(text))
    assert found.sha256 == hashlib.sha256(text).hexdigest()
    assert b"".join(found.lines()) == text


def test_standard_input_is_stored(tmp_path: Path) -> None:
    found = open_source("-", io.BytesIO(b"a\nb\n"), tmp_path)
    assert (found.label, found.line_count, list(found.lines())) == (
        "standard input", 2, [b"a\n", b"b\n"],
    )  # fmt: skip


def test_unusable_input_is_reported_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "empty").touch()
    (tmp_path / "long").write_bytes(b"x" * (RECORD_BYTES_MAX + 1))
    for name, reason in (
        ("none", "No such file"),
        ("empty", "is empty"),
        ("long", "line 1 is longer"),
        (".", "Is a directory"),
    ):
        with pytest.raises(InvalidArgumentError, match=reason):
            open_source(str(tmp_path / name), NOTHING, tmp_path)


def test_first_log_that_is_long_enough_is_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "short.log").write_text("x\n" * 10)
    (tmp_path / "binary.log").write_bytes(b"\0\n" * 5000)
    pattern = f"{tmp_path}/*.log"
    monkeypatch.setattr(source, "_LOGS", (pattern,))
    assert find_log() == tmp_path / "short.log"
    (tmp_path / "zz-long.log").write_text("x\n" * 5000)
    assert find_log() == tmp_path / "zz-long.log"
    monkeypatch.setattr(source, "_LOGS", (f"{tmp_path}/none*",))
    with pytest.raises(InvalidArgumentError, match="name one"):
        find_log()
