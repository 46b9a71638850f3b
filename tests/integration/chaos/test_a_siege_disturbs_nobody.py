"""A small run of ``make hostile``, with real processes: the appends of the application go on."""

from pathlib import Path

import pytest

from rhumbline.chaos.lab.hostile.siege import STREAMS, Siege


@pytest.mark.long
@pytest.mark.parametrize("tls", [False, True], ids=["plain", "tls"])
def test_appends_go_on_while_every_port_is_attacked(tls: bool, tmp_path: Path) -> None:
    result = Siege(tmp_path, tls=tls, connections=300, frames=5_000).run()
    print(*result.lines(), sep="\n")
    assert [phase.name for phase in result.phases] == ["before", "idle", "flood"]
    assert all(phase.ms[stream] for phase in result.phases for stream in STREAMS)
    for kind in ("bookie", "proxy", "status"):
        assert result.counts[f"{kind}: messages"] >= 5_000
