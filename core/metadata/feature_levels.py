"""Feature levels: numbers for what every process of a cluster understands (rules UPG-1 to UPG-5).

A cluster has one level, in its metadata store. A program knows a range of levels, and refuses a
cluster whose level is outside of it. What an older program could not read is written from a certain
level on, and the level is raised by command, once every process knows it. Until then the cluster
can return to the older program.
"""

from typing import NamedTuple

from ..protocol.errors import CorruptionError, FeatureLevelError
from ..protocol.installation import installed_version
from ..protocol.metadata_record import decode_metadata_record, encode_metadata_record

LEVELS = {
    1: "all formats of programs that do not know levels",
    2: "all processes know levels; values of the metadata store may name the oldest format whose "
    "programs read them",
    3: "quotas may limit connections and stored bytes",
    4: "archives may be compacted, and records erased from them",
}
"""The meaning of each level that this program knows."""
RELOCATIONS_LEVEL = 4
"""From this level on, jobs may move the records of archived segments (rule ARC-60)."""

_FORMAT = 1
_LEVEL_MAX = 1_000_000


class LevelRange(NamedTuple):
    """The levels that a program knows."""

    oldest: int
    newest: int

    def __str__(self) -> str:
        return f"{self.oldest} to {self.newest}"


KNOWN_LEVELS = LevelRange(min(LEVELS), max(LEVELS))
"""The levels that this program knows."""


class FeatureRecord(NamedTuple):
    """The level of a cluster. Without a stored record it is the first one."""

    level: int = 1
    raising: int = 0
    """The level to which a command is raising it; 0: none."""

    def encode(self) -> bytes:
        """Return the value of the node."""
        return encode_metadata_record(_FORMAT, self._asdict())

    @classmethod
    def decode(cls, data: bytes | None) -> "FeatureRecord":
        """Return the record of a value, None for none. Raises CorruptionError, ForeignDataError."""
        if data is None:
            return cls()
        what = "the feature level"
        fields = decode_metadata_record(
            what, data, version=_FORMAT, fields={"level": int, "raising": int}, ignores_unknown=True
        )
        level, raising = fields["level"], fields["raising"]
        if not 1 <= level <= _LEVEL_MAX or not 0 <= raising <= _LEVEL_MAX:
            raise CorruptionError(f"{what}: {level} or {raising} is not a level")
        return cls(level, raising)

    def check_known(self, known: LevelRange = KNOWN_LEVELS) -> None:
        """Raise FeatureLevelError unless a program that knows these levels may run (rule UPG-1)."""
        program = f"this program ({installed_version()}) knows levels {known}"
        if self.level < known.oldest:
            raise FeatureLevelError(
                f"the cluster is at feature level {self.level}, and {program}: raise the level "
                "with an earlier version first (`rhumbline cluster features --raise`)"
            )
        if self.level > known.newest:
            raise FeatureLevelError(
                f"the cluster is at feature level {self.level}, and {program}: install a newer "
                "version"
            )
        if self.raising > known.newest:
            raise FeatureLevelError(
                f"the cluster is being raised to feature level {self.raising}, and {program}: "
                "install a newer version"
            )
