"""Grants: which principal may do what to which resource. Values from outside are checked here."""

from collections.abc import Iterable
from enum import StrEnum
from typing import NamedTuple

from ..core.protocol.errors import InvalidArgumentError

PRINCIPAL_CHARACTERS_MAX = 256
NAME_CHARACTERS_MAX = 200
EVERYONE = "*"
"""As the principal of a grant: all principals, except anonymous ones."""


class Action(StrEnum):
    """An action that a grant permits or denies."""

    APPEND = "append"
    READ = "read"
    CREATE = "create"
    DELETE = "delete"
    TRUNCATE = "truncate"
    SUBSCRIBE = "subscribe"
    ARCHIVE = "archive"
    ADMINISTER = "administer"


class Effect(StrEnum):
    """The effect of a grant."""

    ALLOW = "allow"
    DENY = "deny"


class ResourceKind(StrEnum):
    """The kind of a resource."""

    STREAM = "stream"
    NAMESPACE = "namespace"
    CLUSTER = "cluster"


class Resource(NamedTuple):
    """A stream, the streams whose names begin with a prefix, a namespace, or the cluster."""

    kind: ResourceKind
    namespace: str = ""
    name: str = ""
    """Name of the stream, or the prefix of names."""
    is_prefix: bool = False

    def __str__(self) -> str:
        if self.kind is ResourceKind.CLUSTER:
            return self.kind.value
        if self.kind is ResourceKind.NAMESPACE:
            return f"{self.kind.value}:{self.namespace}"
        return f"{self.kind.value}:{self.namespace}/{self.name}{'*' if self.is_prefix else ''}"

    def covers(self, other: "Resource") -> bool:
        """Return whether ``other`` is this resource or a part of it."""
        if self.kind is ResourceKind.CLUSTER:
            return True
        if self.namespace != other.namespace or other.kind is ResourceKind.CLUSTER:
            return False
        if self.kind is ResourceKind.NAMESPACE:
            return True
        if other.kind is ResourceKind.NAMESPACE:
            return False
        if self.is_prefix:
            return other.name.startswith(self.name)
        return not other.is_prefix and self.name == other.name


CLUSTER = Resource(ResourceKind.CLUSTER)


def namespace_resource(namespace: str) -> Resource:
    """Return a namespace as a resource."""
    return Resource(ResourceKind.NAMESPACE, namespace)


def stream_resource(namespace: str, stream: str) -> Resource:
    """Return a stream as a resource."""
    return Resource(ResourceKind.STREAM, namespace, stream)


def prefix_resource(namespace: str, prefix: str) -> Resource:
    """Return the streams whose names begin with ``prefix`` as a resource."""
    return Resource(ResourceKind.STREAM, namespace, prefix, is_prefix=True)


def parse_resource(text: str) -> Resource:
    """Return the resource that a text names: ``cluster``, ``namespace:<name>``,
    ``stream:<namespace>/<name>`` or ``stream:<namespace>/<prefix>*``.

    Raises InvalidArgumentError.
    """
    kind, _, rest = text.partition(":")
    if text == ResourceKind.CLUSTER:
        return CLUSTER
    if kind == ResourceKind.NAMESPACE and _is_name(rest):
        return namespace_resource(rest)
    namespace, slash, name = rest.partition("/")
    if kind == ResourceKind.STREAM and slash and _is_name(namespace):
        is_prefix = name.endswith("*")
        name = name[:-1] if is_prefix else name
        if _is_name(name) or (is_prefix and not name):
            return Resource(ResourceKind.STREAM, namespace, name, is_prefix)
    raise InvalidArgumentError(
        f"resource {text[:80]!r} is not cluster, namespace:NAME, stream:NAMESPACE/NAME or "
        "stream:NAMESPACE/PREFIX*"
    )


class Grant(NamedTuple):
    """The actions on a resource that a principal is allowed or denied."""

    principal: str
    resource: Resource
    effect: Effect
    actions: frozenset[Action]

    def __str__(self) -> str:
        actions = ", ".join(sorted(self.actions))
        return f"{self.effect.value} {self.principal} {actions} on {self.resource}"


def make_grant(
    principal: str, actions: Iterable[str], resource: str, effect: str = Effect.ALLOW
) -> Grant:
    """Check the values and return their grant. Raises InvalidArgumentError."""
    found = frozenset(map(_action, actions))
    if not found:
        raise InvalidArgumentError("a grant needs at least one action")
    if effect not in set(Effect):
        raise InvalidArgumentError(f"effect {effect[:80]!r} is not {' or '.join(Effect)}")
    return Grant(check_principal(principal), parse_resource(resource), Effect(effect), found)


def check_principal(name: str) -> str:
    """Return ``name`` if a principal may have it. Raises InvalidArgumentError."""
    is_text = 0 < len(name) <= PRINCIPAL_CHARACTERS_MAX and name.isprintable()
    if not is_text or name != name.strip():
        raise InvalidArgumentError(
            f"name of principal {name[:80]!r} is not 1 to {PRINCIPAL_CHARACTERS_MAX} printable "
            "characters without spaces around them"
        )
    return name


def _action(text: str) -> Action:
    if text not in set(Action):
        raise InvalidArgumentError(f"action {text[:80]!r} is not one of {', '.join(Action)}")
    return Action(text)


def _is_name(text: str) -> bool:
    allowed = (
        text.isascii() and text.replace(".", "_").replace("-", "_").replace("_", "a").isalnum()
    )
    return allowed and text[0] not in ".-" and len(text) <= NAME_CHARACTERS_MAX
