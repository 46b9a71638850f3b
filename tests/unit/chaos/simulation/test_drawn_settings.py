"""Simulated runs draw every setting that declares values for them, from those values only."""

from random import Random

from rhumbline.chaos.simulation.drawn_settings import drawn
from rhumbline.core.ledger.config import LedgerConfig
from rhumbline.core.runtime.settings import settings_of


def test_settings_are_drawn_from_their_declared_values() -> None:
    found = [drawn(LedgerConfig, Random(seed)) for seed in range(100)]
    for name, declared in settings_of(LedgerConfig).items():
        assert {values[name] for values in found if name in values} == set(declared.draws)
    assert drawn(LedgerConfig, Random(3)) == found[3]
