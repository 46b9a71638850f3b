"""A sitting: which turns run, and what a failure leaves behind."""

from pathlib import Path

import pytest

from rhumbline.bench.peers.sitting import OTHERS, PeerSitting
from rhumbline.errors import ConfigurationError

_RUN = """#!/bin/sh
mkdir -p "$RAW"
echo '{"w":"W2-1","peer":"%s-x"}' >>"$RAW/%s.jsonl"
"""


def _scripts(folder: Path) -> Path:
    folder.mkdir()
    scripts = {"setup.sh": "#!/bin/sh\n"}
    for system in OTHERS:
        scripts[f"run_{system}.sh"] = _RUN % (system, system)
        scripts[f"servers_{system}.sh"] = "#!/bin/sh\n"
    for name, text in scripts.items():
        (folder / name).write_text(text)
        (folder / name).chmod(0o755)
    return folder


@pytest.fixture(name="own_turns")
def _own_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    """Replace our own benchmarks, which start servers, by one row."""
    row = {"w": "W2-1", "peer": "rhumbline-imm"}
    monkeypatch.setattr(PeerSitting, "_own_rows", lambda _self: [row])


@pytest.mark.usefixtures("own_turns")
def test_every_system_has_its_turns_and_second_round_is_reversed(tmp_path: Path) -> None:
    sitting = PeerSitting(_scripts(tmp_path / "peers"), tmp_path / "work", 0.5, 2, print, 0.01)
    sitting.run()
    found = [(turn["system"], turn["repetition"]) for turn in sitting.documents()]
    assert [system for system, _ in found] == ["rhumbline", *"ABC", *"CBA", "rhumbline"]
    assert sitting.documents()[1]["rows"] == [{"w": "W2-1", "peer": "A-x"}]
    assert all(turn["raw"] for turn in sitting.documents())


@pytest.mark.usefixtures("own_turns")
def test_interrupted_sitting_continues_with_the_turn_that_failed(tmp_path: Path) -> None:
    scripts = _scripts(tmp_path / "peers")
    sitting = PeerSitting(scripts, tmp_path / "work", 0.5, 1, print, 0.01)
    broken = tmp_path / "work" / "others" / "run_B.sh"
    sitting._set_up()
    text = broken.read_text()
    broken.write_text("#!/bin/sh\nexit 3\n")
    with pytest.raises(ConfigurationError, match=r"run_B\.sh failed"):
        sitting.run()
    assert [turn["system"] for turn in sitting.documents()] == ["rhumbline", "A"]
    broken.write_text(text)
    sitting.run()
    assert [turn["system"] for turn in sitting.documents()] == ["rhumbline", *"ABC"]


def test_folder_without_scripts_is_refused(tmp_path: Path) -> None:
    sitting = PeerSitting(tmp_path, tmp_path / "work", 0.5, 1, print, 0.01)
    with pytest.raises(ConfigurationError, match="PEERS"):
        sitting.run()
