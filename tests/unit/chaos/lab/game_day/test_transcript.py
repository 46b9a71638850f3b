"""The transcript of a game day."""

from pathlib import Path

from rhumbline.chaos.lab.game_day.transcript import Transcript


def test_lines_have_their_time_and_long_output_is_cut(tmp_path: Path) -> None:
    times = iter([100.0, 101.5, 103.0])
    transcript = Transcript(tmp_path / "transcript.txt", lambda: next(times))
    transcript.title("a step")
    transcript.say("$ rhumbline doctor")
    transcript.output("\n".join(f"line {number}" for number in range(100)))
    assert transcript.now_s() == 3.0
    written = (tmp_path / "transcript.txt").read_text().splitlines()
    assert written[:4] == ["", "=== a step", "[   1.5] $ rhumbline doctor", "         | line 0"]
    assert written[-1] == "         | line 99"
    assert "         | ... 60 lines ..." in written
    assert len(written) == 3 + 41
