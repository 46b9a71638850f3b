"""Principals: the parties that speak on connections and in calls."""

from dataclasses import dataclass
from enum import StrEnum


class Role(StrEnum):
    """The part that a principal plays in a cluster."""

    BOOKIE = "bookie"
    PROXY = "proxy"
    REPAIR = "repair"
    ADMIN = "admin"
    CLIENT = "client"


INTERNAL_ROLES = frozenset({Role.BOOKIE, Role.PROXY, Role.REPAIR, Role.ADMIN})
"""The roles of the cluster's own parts and of its administrators."""


@dataclass(frozen=True, slots=True)
class Principal:
    """A party that speaks: its name, and the roles that its certificate or token proves."""

    name: str
    roles: frozenset[Role] = frozenset({Role.CLIENT})

    def __str__(self) -> str:
        return self.name or "anonymous"

    @property
    def is_anonymous(self) -> bool:
        """True if nothing is known about who speaks."""
        return not self.name


ANONYMOUS = Principal("", frozenset())
"""The principal of a connection or call without a certificate and without a token."""
