"""The state of a cluster as a TOML file that ``apply`` accepts; equal states give equal files."""

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from ...core.log.policy import StreamPolicy
from ...security.quotas import LIMITS
from .found_state import FoundCluster, FoundNamespace
from .policy_table import policy_keys

_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")


def write_state(state: FoundCluster, *, source: str) -> str:
    """Return the file; ``source`` names the cluster in its first line."""
    lines = [f"# The state of {source}. `rhumbline apply -f` restores it.", ""]
    if state.regions is not None:
        lines += [f"regions = {_value(list(state.regions))}", ""]
    for name, namespace in sorted(state.namespaces.items()):
        lines += _namespace(name, namespace)
    for subject, quota in state.quotas.items():
        limits = {limit: getattr(quota, limit) for limit in LIMITS}
        given = {limit: value for limit, value in limits.items() if value is not None}
        lines += _table(f"quotas.{_key(str(subject))}", given)
    for grant in state.grants.grants:
        content: dict[str, Any] = {
            "principal": grant.principal,
            "actions": sorted(map(str, grant.actions)),
            "resource": str(grant.resource),
        }
        if grant.effect.value != "allow":
            content["effect"] = grant.effect.value
        lines += ["[[grants]]", *_pairs(content), ""]
    return "\n".join(lines)


def _namespace(name: str, namespace: FoundNamespace) -> Iterator[str]:
    table = f"namespaces.{_key(name)}"
    yield from _table(table, {"store": namespace.store} if namespace.store else {})
    base = StreamPolicy(quorum=namespace.policy.quorum)
    yield from _table(f"{table}.policy", policy_keys(namespace.policy, base))
    for topic, count in sorted(namespace.topics.items()):
        yield f"# not in this file: topic {topic} with {count} partitions, {topic}.0 and so on"
    yield from _table(f"{table}.streams", {})
    for stream, found in sorted(namespace.streams.items()):
        own = f"{table}.streams.{_key(stream)}"
        yield from _table(own, {"policy": {}} if found.policy is None else {})
        if found.policy is not None:
            yield from _table(f"{own}.policy", policy_keys(found.policy, namespace.policy))
        if found.subscriptions:
            names: dict[str, Any] = {one: {} for one in sorted(found.subscriptions)}
            yield from _table(f"{own}.subscriptions", names)


def _table(name: str, content: Mapping[str, Any]) -> list[str]:
    return [f"[{name}]", *_pairs(content), ""]


def _pairs(content: Mapping[str, Any]) -> list[str]:
    return [f"{_key(key)} = {_value(value)}" for key, value in content.items()]


def _key(name: str) -> str:
    return name if _BARE_KEY.fullmatch(name) else _string(name)


def _value(value: Any) -> str:  # noqa: ANN401 - a TOML value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, list):
        return f"[{', '.join(map(_value, value))}]"
    if isinstance(value, dict):
        pairs = ", ".join(_pairs(value))
        return f"{{ {pairs} }}" if pairs else "{}"
    return _string(str(value))


def _string(text: str) -> str:
    """Return a basic string of TOML, whose escapes are those of JSON."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
