"""A report is clean only if nothing was lost, nothing failed and everything is flat."""

from xml.etree import ElementTree

from rhumbline.bench.soak.flatness import DESCRIPTORS, DISK, MEMORY, MIB, P99
from rhumbline.bench.soak.soak_run import SoakReport


def report(**growing: float) -> SoakReport:
    found = SoakReport(span_s=3600.0, unjudged=("west-1",))
    for minute in range(60):
        at_s = 60.0 * minute
        found.add(MEMORY, "east-0", at_s, 100 * MIB + growing.get("memory", 0) * minute)
        found.add(MEMORY, "west-1", at_s, (minute % 10) * 20 * MIB + MIB * 10 * minute)
        found.add(DESCRIPTORS, "east-0", at_s, 30 + growing.get("descriptors", 0) * minute)
        found.add(DISK, "east-0", at_s, 50 * MIB)
        found.add(P99, "direct", at_s, 0.01)
    found.counts["direct"] = {"appended": 5, "read": 5, "lost": 0}
    found.kills.append((600.0, "west-1"))
    return found


def test_a_flat_run_without_losses_is_clean() -> None:
    found = report()
    assert found.is_clean
    assert found.lines()[-1] == "clean"
    assert "disk        east-0         median 50 MiB, growth 0, allowed 32 MiB: flat" in (
        found.lines()
    )
    judged = {(one.kind, one.name) for one in found.judgements()}
    assert (MEMORY, "west-1") not in judged, "it was restarted"


def test_losses_faults_and_growth_are_not_clean() -> None:
    lost, failed = report(), report()
    lost.counts["direct"]["lost"] = 1
    failed.faults.append("repair ended")
    for found in (lost, failed, report(memory=2 * MIB), report(descriptors=1)):
        assert not found.is_clean
        assert found.lines()[-1] == "NOT CLEAN"
    assert any("GROWS" in line for line in report(memory=2 * MIB).lines())


def test_the_plot_shows_every_series_and_each_kill() -> None:
    text = report().plot("A soak")
    ElementTree.fromstring(text)
    for name in ("east-0", "west-1", "direct"):
        assert f">{name}</text>" in text
    assert "the kills of west-1" in text
