"""Programs of two versions, and the format that the newer one writes from its level on.

The formats of a future level do not exist yet. In their place the newer program stores each JSON
value of the metadata store with a version of the format that no program of today reads, and reads
both. The older program is the code as it is.
"""

import re
from typing import NamedTuple

from ....core.metadata.cluster_layout import Paths
from ....core.metadata.feature_levels import KNOWN_LEVELS, LevelRange
from ....server.server_directory import ROOT as SERVERS
from ....server.upgrade.process_versions import PROCESSES

_VERSION = re.compile(rb'\{"v":(\d+)')
_NEXT = 1_000
"""Added to the version of a value in the newer format."""

_READ_BY_ALL = (Paths().feature_level, f"{PROCESSES}/", f"{SERVERS}/")
"""Values that programs of all versions read at every level."""


class SimProgram(NamedTuple):
    """A version of the product."""

    name: str
    levels: LevelRange
    knows_levels: bool = True
    """False for programs from before feature levels: they neither read nor register any."""


class ProgramPair(NamedTuple):
    """The two versions of an upgrade. Only the newer one knows ``level``."""

    old: SimProgram
    new: SimProgram

    @property
    def level(self) -> int:
        """The level to which the upgrade leads."""
        return self.new.levels.newest

    @property
    def has_new_format(self) -> bool:
        """True if the newer program stores values that the older one cannot read."""
        return self.old.knows_levels


_TODAY = SimProgram("today", KNOWN_LEVELS)
_NEXT_ONE = SimProgram("next", LevelRange(KNOWN_LEVELS.oldest, KNOWN_LEVELS.newest + 1))
_FIRST = SimProgram("first", LevelRange(1, 1), knows_levels=False)

PAIRS = {"today": ProgramPair(_TODAY, _NEXT_ONE), "first": ProgramPair(_FIRST, _TODAY)}
"""Upgrades by the name of the older program; ``first`` is one from before feature levels."""


def in_next_format(path: str, data: bytes) -> bytes:
    """Return a value as the newer program stores it, from its level on."""
    found = _VERSION.match(data)
    if found is None or path.startswith(_READ_BY_ALL):
        return data
    return b'{"v":%d' % (int(found[1]) + _NEXT) + data[found.end() :]


def in_todays_format(data: bytes) -> bytes:
    """Return a value of either format as the programs of today store it."""
    if not is_next_format(data):
        return data
    found = _VERSION.match(data)
    assert found is not None
    return b'{"v":%d' % (int(found[1]) - _NEXT) + data[found.end() :]


def is_next_format(data: bytes) -> bool:
    """Return whether only the newer program can read a value."""
    found = _VERSION.match(data)
    return found is not None and int(found[1]) >= _NEXT
