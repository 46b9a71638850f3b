"""Draws settings of a simulated run from the values that their declarations name."""

from random import Random
from typing import Any

from ...core.runtime.settings import settings_of


def drawn(cls: type, random: Random) -> dict[str, Any]:
    """Return a value for each setting of ``cls`` that declares ``draws``, in order."""
    return {
        name: random.choice(declared.draws)
        for name, declared in settings_of(cls).items()
        if declared.draws
    }
