"""Reads and checks the TOML files of ``apply`` and ``diff``. Faults are collected, with lines."""

from collections.abc import Mapping, Sequence
from typing import Any

from ...client.units import parse_bytes
from ...core.protocol.bookie_id import Region, check_region
from ...core.protocol.errors import ConfigurationError, InvalidArgumentError
from ...security.grants import Action, make_grant
from ...security.quotas import LIMITS, Quota, Subject, check_quota, parse_subject
from ..topics.start_options import parse_start
from .declared_state import (
    DeclaredCluster,
    DeclaredNamespace,
    DeclaredStream,
    GrantKey,
)
from .policy_table import Faults, PolicyTable, read_policy
from .toml_document import TomlDocument
from .toml_lines import Key

FAULTS_SHOWN = 20
GLOBAL_STORE = "global"
_SECTIONS = ("regions", "namespaces", "grants", "quotas")
_OF_NAMESPACE = ("store", "policy", "streams")
_OF_STREAM = ("policy", "subscriptions")
_OF_GRANT = ("principal", "actions", "resource", "effect")


def read_documents(documents: Sequence[tuple[str, bytes]]) -> DeclaredCluster:
    """Return what files declare together; each is its name and its content.

    Raises ConfigurationError, which lists every fault with its file and line.
    """
    collected = _Collected()
    for name, content in documents:
        document = TomlDocument(name, content, collected.faults)
        if document.is_parsed:
            _add_document(collected, document)
    faults = collected.faults
    if faults:
        more = len(faults) - FAULTS_SHOWN
        tail = [f"and {more} more"] if more > 0 else []
        raise ConfigurationError("\n".join([*faults[:FAULTS_SHOWN], *tail]))
    return collected.declared()


class _Collected:
    """The parts of all files that were read so far."""

    def __init__(self) -> None:
        self.faults: list[str] = []
        self.regions: tuple[Region, ...] | None = None
        self.namespaces: dict[str, DeclaredNamespace] = {}
        self.grants: dict[GrantKey, frozenset[Action]] | None = None
        self.quotas: dict[Subject, Quota] | None = None

    def declared(self) -> DeclaredCluster:
        return DeclaredCluster(self.regions, self.namespaces, self.grants, self.quotas)


def _add_document(collected: _Collected, document: TomlDocument) -> None:
    table = document.table
    document.refuse_unknown(table, _SECTIONS, ())
    if "regions" in table:
        _add_regions(collected, document, table["regions"])
    if (namespaces := document.child(table, "namespaces", ())) is not None:
        for name, content, key in document.tables(namespaces, ("namespaces",), "namespace"):
            _add_namespace(collected, document, name, content, key)
    if "grants" in table:
        _add_grants(collected, document, table["grants"])
    if (quotas := document.child(table, "quotas", ())) is not None:
        _add_quotas(collected, document, quotas)


def _add_regions(collected: _Collected, document: TomlDocument, value: object) -> None:
    key = ("regions",)
    if collected.regions is not None:
        document.fault(key, "regions are already declared in another file")
    elif not isinstance(value, list) or not all(isinstance(name, str) for name in value):
        document.fault(key, "regions is not a list of strings")
    elif not value:
        document.fault(key, "regions is empty: a cluster has at least one region")
    else:
        names = [document.checked(key, check_region, name) for name in value]
        collected.regions = tuple(sorted({name for name in names if name is not None}))


def _add_namespace(
    collected: _Collected, document: TomlDocument, name: str, content: Mapping[str, Any], key: Key
) -> None:
    document.refuse_unknown(content, _OF_NAMESPACE, key)
    before = collected.namespaces.get(name) or DeclaredNamespace(document.place(key))
    store, is_stated = before.store, before.is_store_stated
    if "store" in content:
        is_stated, given = True, content["store"]
        if not isinstance(given, str):
            document.fault((*key, "store"), f"store {given!r} is not a string")
        elif given != GLOBAL_STORE:
            store = document.checked((*key, "store"), check_region, given)
        else:
            store = None
        if before.is_store_stated and before.store != store:
            document.fault((*key, "store"), f"namespace {name} has another store at {before.place}")
    policy = _policy(document, content, key)
    if policy is not None and before.policy is not None:
        document.fault((*key, "policy"), f"namespace {name} has a policy at {before.place} as well")
    streams = _streams(document, content, key, before.streams)
    collected.namespaces[name] = DeclaredNamespace(
        before.place,
        store,
        is_stated,
        policy if before.policy is None else before.policy,
        streams,
    )


def _streams(
    document: TomlDocument,
    content: Mapping[str, Any],
    key: Key,
    before: Mapping[str, DeclaredStream] | None,
) -> Mapping[str, DeclaredStream] | None:
    table = document.child(content, "streams", key)
    if table is None:
        return before
    found = dict(before or {})
    for name, stream, where in document.tables(table, (*key, "streams"), "stream"):
        if name in found:
            document.fault(where, f"stream {name} is declared at {found[name].place} as well")
            continue
        document.refuse_unknown(stream, _OF_STREAM, where)
        found[name] = DeclaredStream(
            document.place(where),
            _policy(document, stream, where),
            _subscriptions(document, stream, where),
        )
    return found


def _policy(document: TomlDocument, content: Mapping[str, Any], key: Key) -> PolicyTable | None:
    table = document.child(content, "policy", key)
    if table is None:
        return None
    faults: Faults = {}
    policy = read_policy(table, faults)
    for where, text in faults.items():
        document.fault((*key, "policy", *where), f"{'.'.join(where)}: {text}")
    return policy


def _subscriptions(
    document: TomlDocument, stream: Mapping[str, Any], key: Key
) -> Mapping[str, str] | None:
    table = document.child(stream, "subscriptions", key)
    if table is None:
        return None
    found = {}
    for name, content, where in document.tables(table, (*key, "subscriptions"), "subscription"):
        document.refuse_unknown(content, ("from",), where)
        start = content.get("from", "earliest")
        if not isinstance(start, str):
            document.fault(where, f"from {start!r} is not a string")
        elif document.checked(where, parse_start, start) is not None:
            found[name] = start
    return found


def _add_grants(collected: _Collected, document: TomlDocument, value: object) -> None:
    if not isinstance(value, list) or not all(isinstance(row, dict) for row in value):
        document.fault(("grants",), "grants is not an array of tables: write [[grants]]")
        return
    grants = collected.grants = collected.grants or {}
    for index, row in enumerate(value):
        key: Key = ("grants", index)
        document.refuse_unknown(row, _OF_GRANT, key)
        principal, resource = row.get("principal"), row.get("resource")
        actions, effect = row.get("actions"), row.get("effect", "allow")
        if actions == "all":
            actions = list(Action)
        texts = [principal, resource, effect, *(actions if isinstance(actions, list) else [None])]
        if not all(isinstance(text, str) for text in texts):
            document.fault(
                key, "a grant has the strings principal and resource, and a list of actions"
            )
            continue
        made = document.checked(key, make_grant, principal, actions, resource, effect)
        if made is not None and made[:3] in grants:
            document.fault(key, f"{made.principal} has a grant on {made.resource} already")
        elif made is not None:
            grants[made[:3]] = made.actions


def _add_quotas(collected: _Collected, document: TomlDocument, table: Mapping[str, Any]) -> None:
    quotas = collected.quotas = collected.quotas or {}
    for name, limits in table.items():
        key: Key = ("quotas", name)
        subject = document.checked(key, parse_subject, name)
        if subject is None:
            continue
        if not isinstance(limits, dict):
            document.fault(key, f"the quota of {name} is not a table")
            continue
        document.refuse_unknown(limits, LIMITS, key)
        quota = document.checked(key, _quota, subject, limits)
        if quota is not None and subject in quotas:
            document.fault(key, f"{subject} has a quota already")
        elif quota is not None:
            quotas[subject] = quota


def _quota(subject: Subject, limits: Mapping[str, Any]) -> Quota:
    """Return a checked quota. Raises InvalidArgumentError."""
    found: dict[str, int] = {}
    for name in LIMITS:
        value = limits.get(name)
        if isinstance(value, str) and "bytes" in name:
            value = parse_bytes(value)
        if value is not None and type(value) is not int:
            raise InvalidArgumentError(f"{name} {value!r} is not a whole number")
        if value is not None:
            found[name] = value
    quota = Quota(**found)
    check_quota(subject, quota)
    return quota
