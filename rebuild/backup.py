"""A backup of one metadata store: its persistent nodes at one consistent state (rule BAK-8)."""

import base64
import binascii
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ..core.metadata.cluster_layout import LONG_WIDTHS, ROOT, SHORT_WIDTHS, Paths
from ..core.metadata.ledger_ids import GLOBAL_STORE
from ..core.metadata.regional_store_records import RegionalStoreRecord
from ..core.protocol.errors import CorruptionError, InvalidArgumentError
from ..core.runtime.metadata_store import VALUE_BYTES_MAX, check_path
from .sealed_file import seal, unseal

KIND = "metadata backup"


def _ledger_pattern(widths: tuple[int, ...]) -> re.Pattern[str]:
    parts = [f"([0-9]{{{width}}})" for width in widths]
    parts[-1] = "L" + parts[-1]
    return re.compile("/".join([re.escape(ROOT), *parts]))


_LEDGERS = (_ledger_pattern(SHORT_WIDTHS), _ledger_pattern(LONG_WIDTHS))


@dataclass(frozen=True, slots=True)
class Backup:
    """The nodes of a store. It contains passwords, so it is as secret as the store."""

    store: str
    """URI of the store, without secrets."""
    instance_id: str
    began_ms: int
    ended_ms: int
    """Every part is as it was at some time between these two."""
    nodes: Mapping[str, bytes]
    sequences: Mapping[str, int]
    """Numbers of the next sequential children, by parent."""

    @property
    def own_record(self) -> RegionalStoreRecord | None:
        """The record of a regional store, None if it is the global one. Raises CorruptionError."""
        own = self.nodes.get(Paths().own_store)
        return None if own is None else RegionalStoreRecord.decode(own)

    @property
    def store_number(self) -> int:
        """The number of the store: which ledger ids it issues. Raises CorruptionError."""
        own = self.own_record
        return GLOBAL_STORE if own is None else own.number

    def encode(self) -> bytes:
        """Return the bytes of the backup's file. Raises LimitExceededError."""
        content = {
            "store": self.store,
            "instance_id": self.instance_id,
            "began_ms": self.began_ms,
            "ended_ms": self.ended_ms,
            "nodes": {
                path: base64.b64encode(data).decode() for path, data in sorted(self.nodes.items())
            },
            "sequences": dict(sorted(self.sequences.items())),
        }
        return seal(KIND, content)

    @classmethod
    def decode(cls, data: bytes, name: str) -> "Backup":
        """Decode a file. Raises ForeignDataError, CorruptionError; ``name`` is for their text."""
        content = unseal(KIND, data, name)
        try:
            nodes = {
                check_path(path): base64.b64decode(text, validate=True)
                for path, text in content.pop("nodes").items()
            }
            sequences = {
                check_path(path): int(number) for path, number in content.pop("sequences").items()
            }
            backup = cls(**content, nodes=nodes, sequences=sequences)
            _check(backup)
        except (
            TypeError, ValueError, KeyError, AttributeError, binascii.Error, InvalidArgumentError
        ) as error:  # fmt: skip
            raise CorruptionError(f"{name} is not a valid backup: {error}") from error
        return backup


def _check(backup: Backup) -> None:
    values: tuple[Any, ...] = (backup.began_ms, backup.ended_ms, *backup.sequences.values())
    if any(type(value) is not int or value < 0 for value in values):
        raise ValueError("a number is negative or not an integer")
    if any(len(data) > VALUE_BYTES_MAX for data in backup.nodes.values()):
        raise ValueError(f"a node has more than {VALUE_BYTES_MAX} bytes")
    if backup.nodes.get(Paths().instance_id, b"") != backup.instance_id.encode():
        raise ValueError("its instance id is not that of its nodes")


def ledger_ids_in(nodes: Mapping[str, bytes]) -> dict[int, str]:
    """Return the paths of the ledgers among the nodes, by id."""
    found: dict[int, str] = {}
    for path in nodes:
        for pattern in _LEDGERS:
            match = pattern.fullmatch(path)
            if match is not None:
                found[int("".join(match.groups()))] = path
    return found
