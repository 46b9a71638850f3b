"""The verdict about an attack: the worst median of its phases beside that before."""

from rhumbline.chaos.lab.hostile.siege import DIRECT, PROXIED, Phase, SiegeResult


def phase(name: str, ms: float) -> Phase:
    return Phase(name, {PROXIED: [1.0, ms, 100.0], DIRECT: [ms] * 3})


def test_the_worst_phase_decides_by_its_median() -> None:
    good = SiegeResult([phase("before", 2.0), phase("idle", 3.0), phase("flood", 4.0)], {"x": 1})
    assert good.slowdown(PROXIED) == good.slowdown(DIRECT) == 2.0
    assert good.is_within_bound
    bad = SiegeResult([phase("before", 2.0), phase("idle", 4.1), phase("flood", 2.0)], {})
    assert not bad.is_within_bound
    assert "x: 1" in good.lines()
    assert "direct: slower by a factor of 2.00" in good.lines()
