"""The short form of `make game-day`, with real processes and a real Prometheus."""

from pathlib import Path

import pytest

from rhumbline.chaos.lab.game_day.game_day import RULES, GameDay, picture, play_day
from rhumbline.chaos.lab.game_day.steps import SHORT
from rhumbline.chaos.lab.wan.cluster import SERVERS
from rhumbline.core.protocol.errors import ConfigurationError
from rhumbline.tests.support.servers import installs

SCALE = 60
RECORDS_PER_S = 100.0
GRACE_MS = 7_000
"""Longer than the 5 s in which a live writer answers."""


@pytest.mark.long
@pytest.mark.timeout(600)
@pytest.mark.needs_server("prometheus")
async def test_alerts_fire_and_clear_and_no_acknowledged_record_is_lost(tmp_path: Path) -> None:
    try:
        installs.prometheus_binary()
        day = GameDay(
            tmp_path, SERVERS, rules=RULES.read_text(), metadata="sqlite", scale=SCALE,
            rate=RECORDS_PER_S, grace_ms=GRACE_MS,
        )  # fmt: skip
    except (installs.NotInstalledError, ConfigurationError) as error:
        pytest.skip(str(error))
    assert await play_day(day, SHORT, seconds_max=240.0) == []
    for step in day.results:
        fired = {span.alert.name for span in step.firings}
        assert "RhumblineBookieDown" in fired, step
        assert all(span.cleared_s is not None for span in step.firings), step
        assert step.red_s is not None and step.green_s is not None, step
    assert len(day.outcomes().acked) == 3
    assert picture(day).count("<rect") > 6
