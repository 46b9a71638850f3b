"""The permission that each call of a proxy needs (rule SEC-5)."""

from collections.abc import Callable
from typing import Any, NamedTuple

from ...security.grants import (
    CLUSTER,
    Action,
    Resource,
    namespace_resource,
    prefix_resource,
    stream_resource,
)
from ..rpc import methods


class Requirement(NamedTuple):
    """A permission: one of the actions, on the resource that the request names."""

    actions: tuple[Action, ...]
    resource: Callable[[Any], Resource]
    is_internal: bool = False
    """True if the cluster's own parts need no grant for it."""


def _stream(request: Any) -> Resource:  # noqa: ANN401 - one of many messages
    return stream_resource(request.namespace, request.stream)


def _streams(request: Any) -> Resource:  # noqa: ANN401 - as above
    return prefix_resource(request.namespace, request.prefix)


def _topic(request: Any) -> Resource:  # noqa: ANN401 - as above
    return prefix_resource(request.namespace, f"{request.topic}.")  # those of all its partitions


def _namespace(request: Any) -> Resource:  # noqa: ANN401 - as above
    return namespace_resource(request.namespace)


def _stream_or_namespace(request: Any) -> Resource:  # noqa: ANN401 - as above
    return _stream(request) if request.stream else _namespace(request)


def _cluster(_: Any) -> Resource:  # noqa: ANN401 - as above
    return CLUSTER


APPENDING = (Action.APPEND,)
_READ = (Action.READ,)
_SUBSCRIBE = (Action.SUBSCRIBE,)
_ADMINISTER = (Action.ADMINISTER,)
_USE = (Action.READ, Action.APPEND, Action.SUBSCRIBE, Action.ADMINISTER)
"""For calls without which a stream can neither be read nor written."""

_SUBSCRIPTION = Requirement(_SUBSCRIBE, _stream)

REQUIREMENTS: dict[methods.Method, Requirement] = {
    methods.READ: Requirement(_READ, _stream),
    methods.CREATE_STREAM: Requirement((Action.CREATE,), _stream),
    methods.DELETE_STREAM: Requirement((Action.DELETE,), _stream),
    methods.LIST_STREAMS: Requirement(_READ, _streams),
    methods.DESCRIBE_STREAM: Requirement(_USE, _stream),
    methods.TRUNCATE_STREAM: Requirement((Action.TRUNCATE,), _stream),
    methods.UNTRUNCATE_STREAM: Requirement((Action.TRUNCATE,), _stream),
    methods.END_STREAM: Requirement(APPENDING, _stream),
    methods.SET_POLICY: Requirement(_ADMINISTER, _stream_or_namespace),
    methods.SET_HOME_REGION: Requirement(_ADMINISTER, _stream),
    methods.SET_ACCEPTING: Requirement(_ADMINISTER, _cluster),
    methods.PROBE_PROXY: Requirement(_ADMINISTER, _cluster, is_internal=True),
    methods.GET_OWNER: Requirement(_USE, _stream),
    methods.RELEASE_STREAM: Requirement(_ADMINISTER, _stream),
    methods.DESCRIBE_NAMESPACE: Requirement((*_USE, Action.CREATE), _namespace),
    methods.DESCRIBE_HOME: Requirement(_USE, _stream),
    methods.FIND_END: Requirement(_USE, _stream),
    methods.SEAL_STREAM: Requirement(_ADMINISTER, _stream),
    methods.UNSEAL_STREAM: Requirement(_ADMINISTER, _stream),
    methods.ROLL_STREAM: Requirement(_ADMINISTER, _stream),
    methods.READ_SCHEMAS: Requirement(_USE, _stream),
    methods.REPLACE_SCHEMAS: Requirement((Action.APPEND, Action.ADMINISTER), _stream),
    methods.CREATE_NAMESPACE: Requirement(_ADMINISTER, _namespace),
    methods.DELETE_NAMESPACE: Requirement(_ADMINISTER, _namespace),
    methods.LIST_NAMESPACES: Requirement((Action.READ, Action.ADMINISTER), _cluster),
    methods.CREATE_SUBSCRIPTION: _SUBSCRIPTION,
    methods.READ_SUBSCRIPTION: _SUBSCRIPTION,
    methods.COMMIT_SUBSCRIPTION: _SUBSCRIPTION,
    methods.RESET_SUBSCRIPTION: _SUBSCRIPTION,
    methods.TAKE_OVER_SUBSCRIPTION: _SUBSCRIPTION,
    methods.STORE_ACKNOWLEDGEMENTS: _SUBSCRIPTION,
    methods.DELETE_SUBSCRIPTION: _SUBSCRIPTION,
    methods.LIST_SUBSCRIPTIONS: _SUBSCRIPTION,
    methods.CREATE_TOPIC: Requirement((Action.CREATE,), _topic),
    methods.GROW_TOPIC: Requirement((Action.CREATE,), _topic),
    methods.LIST_GROUPS: Requirement(_SUBSCRIBE, _topic),
    methods.DESCRIBE_TOPIC: Requirement(_USE, _topic),
    methods.DELETE_TOPIC: Requirement((Action.DELETE,), _topic),
    methods.LIST_TOPICS: Requirement(_READ, _streams),
    methods.HOLD_MEMBERSHIP: Requirement(_SUBSCRIBE, _topic),
}
"""All calls, except those of ``UNRESTRICTED`` and appending, which is checked by item."""

UNRESTRICTED = frozenset({methods.LIST_PROXIES})
"""Calls that each known caller may make: clients find their proxies by them."""
