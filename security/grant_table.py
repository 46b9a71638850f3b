"""The table of all grants of a cluster, and the decisions that follow from it (rules SEC-1 to 4).

Both are pure: a table is a value, and a decision depends on nothing but its arguments.
"""

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from ..core.protocol.errors import CorruptionError, InvalidArgumentError, LimitExceededError
from ..core.protocol.metadata_record import decode_metadata_record, encode_metadata_record
from .grants import EVERYONE, Action, Effect, Grant, Resource, make_grant
from .principal import Principal, Role

TABLE_BYTES_MAX = 90 * 1024
"""Maximum size of an encoded table: it is one value in the metadata store."""
_FORMAT = 1


class AccessDecision(NamedTuple):
    """The answer to the question whether a principal may act, with its reason."""

    is_allowed: bool
    reason: str
    grant: Grant | None = None
    """The grant that decided; None if a role or the lack of a grant did."""


class GrantTable:
    """An immutable set of grants, with at most one for each principal, resource and effect."""

    __slots__ = ("_by_principal", "grants")

    def __init__(self, grants: Iterable[Grant] = ()) -> None:
        joined: dict[tuple[str, Resource, Effect], frozenset[Action]] = {}
        for grant in grants:
            key = grant[:3]
            joined[key] = joined.get(key, frozenset()) | grant.actions
        self.grants = tuple(Grant(*key, joined[key]) for key in sorted(joined))
        self._by_principal: dict[str, list[Grant]] = {}
        for grant in self.grants:
            self._by_principal.setdefault(grant.principal, []).append(grant)

    def granted(self, grant: Grant) -> "GrantTable":
        """Return the table with one more grant."""
        return GrantTable((*self.grants, grant))

    def revoked(self, grant: Grant) -> "GrantTable":
        """Return the table in which nothing of ``grant`` is left."""
        kept = []
        for one in self.grants:
            left = one.actions - grant.actions if one[:3] == grant[:3] else one.actions
            if left:
                kept.append(one._replace(actions=left))
        return GrantTable(kept)

    def of(self, principal: str) -> list[Grant]:
        """Return the grants that apply to a principal: its own, and those of everyone."""
        own = self._by_principal.get(principal, []) if principal != EVERYONE else []
        return [*own, *self._by_principal.get(EVERYONE, [])]

    def decide(
        self, principal: Principal, actions: Sequence[Action], resource: Resource
    ) -> AccessDecision:
        """Return whether a principal may do one of ``actions`` to a resource.

        A principal with the role ``admin`` may do everything. Otherwise an action is allowed if a
        grant allows it and none denies it. A grant that denies a part of a prefix denies a request
        for the whole of it.
        """
        if Role.ADMIN in principal.roles and not principal.is_anonymous:
            return AccessDecision(True, f"{principal} has the role admin")
        if principal.is_anonymous:
            return AccessDecision(False, "the caller is anonymous")
        found = self.of(principal.name)
        denial: Grant | None = None
        for action in actions:
            denied = _find(found, Effect.DENY, action, resource)
            allowed = _find(found, Effect.ALLOW, action, resource)
            if allowed is not None and denied is None:
                return AccessDecision(True, f"granted: {allowed}", allowed)
            denial = denial or denied
        if denial is not None:
            return AccessDecision(False, f"denied: {denial}", denial)
        wanted = " or ".join(actions)
        return AccessDecision(False, f"no grant allows {principal} to {wanted} on {resource}")

    def encode(self) -> bytes:
        """Return the table as a value of the metadata store. Raises LimitExceededError."""
        rows = [
            [grant.principal, str(grant.resource), grant.effect.value, sorted(grant.actions)]
            for grant in self.grants
        ]
        data = encode_metadata_record(_FORMAT, {"grants": rows})
        if len(data) > TABLE_BYTES_MAX:
            raise LimitExceededError(
                f"the grants take {len(data)} bytes, more than {TABLE_BYTES_MAX}: use prefixes of "
                "streams, or revoke grants that are no longer needed"
            )
        return data


def _find(
    grants: Iterable[Grant], effect: Effect, action: Action, resource: Resource
) -> Grant | None:
    """Return the first grant of this effect that applies; None if there is none."""
    for grant in grants:
        if grant.effect is not effect or action not in grant.actions:
            continue
        if grant.resource.covers(resource):
            return grant
        if effect is Effect.DENY and resource.is_prefix and resource.covers(grant.resource):
            return grant
    return None


def decode_grants(data: bytes) -> GrantTable:
    """Return the table of an encoded value. Raises CorruptionError, ForeignDataError."""
    if len(data) > TABLE_BYTES_MAX:
        raise CorruptionError(f"the grants take {len(data)} bytes, more than {TABLE_BYTES_MAX}")
    fields = decode_metadata_record("the grants", data, version=_FORMAT, fields={"grants": list})
    return GrantTable(map(_decode_row, fields["grants"]))


def _decode_row(row: Any) -> Grant:  # noqa: ANN401 - any JSON value
    if not isinstance(row, list) or len(row) != 4 or not isinstance(row[3], list):
        raise CorruptionError(f"the grants: {row!r} is not a grant")
    if not all(isinstance(text, str) for text in (*row[:3], *row[3])):
        raise CorruptionError(f"the grants: {row!r} has a value that is not text")
    try:
        return make_grant(row[0], row[3], row[1], row[2])
    except InvalidArgumentError as error:
        raise CorruptionError(f"the grants: {error}") from error
