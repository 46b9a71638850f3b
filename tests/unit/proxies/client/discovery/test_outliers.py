"""A proxy that fails in a row is avoided for a time that doubles and is bounded."""

from random import Random

from rhumbline.proxies.client.discovery.config import DiscoveryConfig
from rhumbline.proxies.client.discovery.outliers import Outliers

CONFIG = DiscoveryConfig(eject_failures=2, eject_ms=1_000, eject_ms_max=4_000)


def test_proxy_is_ejected_after_failures_in_a_row_and_returns_after_a_success() -> None:
    outliers = Outliers(CONFIG, Random(1))
    assert outliers.failed("a:1", 0.0) == 0
    assert not outliers.is_ejected("a:1", 0.0), "one failure is not enough"
    assert not outliers.succeeded("a:1"), "it was not ejected"
    assert outliers.failed("a:1", 0.0) == 0, "the failures are not in a row"
    pause_ms = outliers.failed("a:1", 0.0)
    assert 750 <= pause_ms <= 1_000
    assert outliers.is_ejected("a:1", pause_ms / 1000 - 0.001)
    assert not outliers.is_ejected("a:1", pause_ms / 1000)
    assert not outliers.is_ejected("b:1", 0.0)
    assert outliers.succeeded("a:1")
    assert not outliers.is_ejected("a:1", 0.0)
    assert outliers.ejected_count == 1


def test_each_ejection_lasts_longer_up_to_the_maximum() -> None:
    outliers = Outliers(CONFIG, Random(1))
    now, pauses = 0.0, []
    outliers.failed("a:1", now)
    for _ in range(6):
        pauses.append(outliers.failed("a:1", now))
        assert outliers.failed("a:1", now) == 0, "failures meanwhile do not prolong it"
        now += pauses[-1] / 1000
    assert pauses == sorted(pauses[:2]) + pauses[2:]
    assert all(3_000 <= pause <= 4_000 for pause in pauses[2:])


def test_proxies_that_left_are_forgotten() -> None:
    outliers = Outliers(CONFIG, Random(1))
    for address in ("a:1", "a:1", "b:1", "b:1"):
        outliers.failed(address, 0.0)
    outliers.keep(frozenset(("b:1",)))
    assert not outliers.is_ejected("a:1", 0.0)
    assert outliers.is_ejected("b:1", 0.0)
