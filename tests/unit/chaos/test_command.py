"""``rhumbline chaos``: output, reports and exit codes."""

import json
from pathlib import Path

from rhumbline.chaos.lab import scenario_library
from rhumbline.tests.support.processes.process_cluster import refusal, rhumbline, succeeded


def test_library_is_listed() -> None:
    rows = json.loads(succeeded("chaos", "ls", "--output", "json"))
    assert [row["scenario"] for row in rows] == scenario_library.names()
    assert {"scenario", "worlds", "title"} == set(rows[0])


def test_run_is_evaluated_and_reported(tmp_path: Path) -> None:
    options = ("--seeds", "2", "--report", str(tmp_path / "out"), "--output", "json")
    rows = json.loads(succeeded("chaos", "run", "region-flapping", *options))
    assert [(row["seed"], row["verdict"], row["lost"]) for row in rows] == [
        (1, "passed", 0),
        (2, "passed", 0),
    ]
    assert (tmp_path / "out" / "report.html").stat().st_size > 10_000
    before = (tmp_path / "out" / "junit.xml").read_text()
    (tmp_path / "out" / "junit.xml").unlink()
    succeeded("chaos", "report", str(tmp_path / "out"))
    assert (tmp_path / "out" / "junit.xml").read_text() == before


def test_failed_expectation_exits_with_1(tmp_path: Path) -> None:
    text = (scenario_library.FOLDER / "region-flapping.toml").read_text()
    file = tmp_path / "mine.toml"
    file.write_text(text.replace("ms_max = 3_000", "ms_max = 1"))
    done = rhumbline("chaos", "run", str(file), "--report", str(tmp_path / "out"))
    assert done.returncode == 1
    assert b"longest time without an append anywhere" in done.stderr
    assert "failed" in done.stdout.decode()


def test_mistakes_are_reported_in_one_line(tmp_path: Path) -> None:
    assert refusal("chaos", "run") == (
        2,
        "rhumbline: no scenario given; `rhumbline chaos ls` lists them",
    )
    code, line = refusal("chaos", "run", "no-such-scenario")
    assert code == 2 and "unknown scenario no-such-scenario" in line
    code, line = refusal("chaos", "run", "sessions-expire", "--world", "wan")
    assert code == 2 and "does not run in world wan" in line
    (tmp_path / "bad.toml").write_text("titel = 1")
    code, line = refusal("chaos", "run", str(tmp_path / "bad.toml"))
    assert code == 2 and line.startswith("bad.toml: ")
    assert refusal("chaos", "report", str(tmp_path))[0] == 2
