"""One change that makes a cluster what files declare."""

from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from ...core.log.policy import StreamPolicy
from ...core.protocol.bookie_id import Region
from ...security.grants import Grant
from ...security.quotas import Quota, Subject
from .declared_state import SourceLine


class ChangeAction(StrEnum):
    """The action on a target."""

    CREATE = "create"
    CHANGE = "change"
    DELETE = "delete"


class FieldChange(NamedTuple):
    """A value of the target that changes; None: it has none."""

    field: str
    before: str | None
    after: str | None

    def __str__(self) -> str:
        if self.before is None:
            return f"{self.field} {self.after}"
        return f"{self.field} {self.before} -> {'none' if self.after is None else self.after}"


class RegionsTarget(NamedTuple):
    """The declared regions of the cluster; ``before`` is None if it declares none."""

    before: tuple[Region, ...] | None
    after: tuple[Region, ...]


class NamespaceTarget(NamedTuple):
    """A namespace with its new policy."""

    name: str
    store: Region | None
    policy: StreamPolicy


class StreamTarget(NamedTuple):
    """A stream with its new policy, None if it follows the namespace. A new one has no identity."""

    namespace: str
    name: str
    identity: str
    policy: StreamPolicy | None


class SubscriptionTarget(NamedTuple):
    """A subscription, with the start of a new one."""

    namespace: str
    stream: str
    name: str
    start: str


class GrantTarget(NamedTuple):
    """A grant, which replaces the one of its principal, resource and effect."""

    grant: Grant


class QuotaTarget(NamedTuple):
    """A quota; None if it is deleted."""

    subject: Subject
    quota: Quota | None


Target = (
    RegionsTarget | NamespaceTarget | StreamTarget | SubscriptionTarget | GrantTarget | QuotaTarget
)


@dataclass(frozen=True, slots=True)
class StateChange:
    """A change with the values that it changes, and the line that requires it."""

    action: ChangeAction
    target: Target
    fields: tuple[FieldChange, ...] = ()
    place: SourceLine | None = None

    @property
    def kind(self) -> str:
        """The kind of the target."""
        return type(self.target).__name__.removesuffix("Target").lower()

    @property
    def name(self) -> str:
        """The name of the target, which is unique among those of its kind."""
        match self.target:
            case RegionsTarget():
                return "cluster"
            case NamespaceTarget(name=name):
                return name
            case StreamTarget(namespace=namespace, name=name):
                return f"{namespace}/{name}"
            case SubscriptionTarget(namespace=namespace, stream=stream, name=name):
                return f"{namespace}/{stream}/{name}"
            case GrantTarget(grant=grant):
                return f"{grant.effect.value} {grant.principal} on {grant.resource}"
            case QuotaTarget(subject=subject):
                return str(subject)
