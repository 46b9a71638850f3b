"""The state that files declare: regions, namespaces with their streams, grants and quotas."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import NamedTuple

from ...core.protocol.bookie_id import Region
from ...security.grants import Action, Effect, Grant, Resource
from ...security.quotas import Quota, Subject
from .policy_table import PolicyTable

GrantKey = tuple[str, Resource, Effect]
"""Principal, resource and effect, for which a cluster has at most one grant."""


class SourceLine(NamedTuple):
    """A line of a file; its number begins at 1."""

    file: str
    line: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


@dataclass(frozen=True, slots=True)
class DeclaredStream:
    """A stream with the keys of its policy, and the start of each of its subscriptions."""

    place: SourceLine
    policy: PolicyTable | None
    """Without keys the stream follows its namespace; None: the files leave its policy alone."""
    subscriptions: Mapping[str, str] | None
    """None: the files leave the subscriptions alone."""


@dataclass(frozen=True, slots=True)
class DeclaredNamespace:
    """A namespace with the keys of its policy, and its streams."""

    place: SourceLine
    store: Region | None = None
    """The region in whose metadata store it is."""
    is_store_stated: bool = False
    policy: PolicyTable | None = None
    """None: the files leave the policy alone."""
    streams: Mapping[str, DeclaredStream] | None = None
    """None: the files leave the streams alone."""


@dataclass(frozen=True, slots=True)
class DeclaredCluster:
    """All that the files declare. None: the files leave that part of the cluster alone."""

    regions: tuple[Region, ...] | None = None
    namespaces: Mapping[str, DeclaredNamespace] = field(default_factory=dict)
    grants: Mapping[GrantKey, frozenset[Action]] | None = None
    quotas: Mapping[Subject, Quota] | None = None


def grant_of(key: GrantKey, actions: frozenset[Action]) -> Grant:
    """Return the grant of a key."""
    return Grant(*key, actions)


def short_name(file: str) -> str:
    """Return the name by which messages call a file."""
    return "standard input" if file == "-" else str(PurePath(file))
