"""Replays of scenarios and seeds as documents."""

import json
from collections import Counter

import pytest

from rhumbline.chaos.lab.replay import replay as module
from rhumbline.chaos.lab.replay.replay import ReplayOrder, replay


def test_scenario_is_replayed_with_its_cut_links_and_its_verdict() -> None:
    seeds: list[int] = []
    found = replay(ReplayOrder("scenario", "region-cut-off", 3), seeds.append)
    assert seeds == [3] and json.loads(json.dumps(found)) == found
    kinds = Counter(event[1] for event in found["events"])
    assert kinds["message"] > 1000 and kinds["append"] > 100 and kinds["fence"] > 0
    cut = {(event[2], event[3]) for event in found["events"] if event[1:5:3] == ["path", "cut"]}
    assert cut == {(a, b) for a, b in cut if "west" in (a, b)} and len(cut) == 4
    [[begin_ms, end_ms, text]] = found["faults"]
    assert text == "cut-region west" and end_ms - begin_ms == pytest.approx(4000)
    assert {one["server"] for one in found["servers"]} >= {"bookie-west-0", "app-east"}
    assert found["verdict"]["is_good"] and all(one["held"] for one in found["verdict"]["checks"])
    held = [event[6] for event in found["events"] if event[1:5:3] == ["append", "ok"]]
    assert min(map(len, held)) >= found["quorum"]["ack_quorum"]


def test_long_trace_is_cut_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "EVENTS_MAX", 100)
    found = replay(ReplayOrder("plan", "basic", 1), lambda seed: None)
    assert len(found["events"]) == 100 and found["left_out"] > 100
    assert found["verdict"]["is_good"], "the checkers judge the whole run"
