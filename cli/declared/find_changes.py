"""The changes that make a cluster what files declare. Pure; the order is that of their execution.

Regions come first, then namespaces, streams, subscriptions, quotas and grants. What is no longer
declared is deleted last, apart from regions, which change in one step.
"""

from collections.abc import Iterable, Iterator, Mapping
from itertools import chain

from ...core.log.policy import StreamPolicy
from ...core.protocol.errors import ConfigurationError, InvalidArgumentError
from ...security.grants import Action
from ...security.quotas import LIMITS, Quota
from .declared_state import (
    DeclaredCluster,
    DeclaredNamespace,
    DeclaredStream,
    grant_of,
)
from .document_reader import GLOBAL_STORE
from .found_state import FoundCluster, FoundNamespace, FoundStream
from .policy_table import flat_policy
from .state_change import (
    ChangeAction,
    FieldChange,
    GrantTarget,
    NamespaceTarget,
    QuotaTarget,
    RegionsTarget,
    StateChange,
    StreamTarget,
    SubscriptionTarget,
)

FOLLOWS = "of the namespace"
OWN = "own"


def find_changes(
    declared: DeclaredCluster, found: FoundCluster, *, prunes: bool
) -> list[StateChange]:
    """Return what must change; with ``prunes``, what the files do not declare is deleted.

    Only parts of the cluster that the files declare are pruned: streams of a declared namespace
    with a table of streams, grants if there is any, and so on. Namespaces and streams of topics
    never are. Raises ConfigurationError, which lists every fault.
    """
    faults: list[str] = []
    namespaces = [
        (name, item, found.namespaces.get(name), _new_policy(name, item, found, faults))
        for name, item in sorted(declared.namespaces.items())
    ]
    stages = [
        _regions(declared, found, prunes=prunes),
        chain.from_iterable(
            _namespace(name, item, before, policy) for name, item, before, policy in namespaces
        ),
        chain.from_iterable(
            _streams(name, item, before, policy, faults)
            for name, item, before, policy in namespaces
        ),
        _quotas(declared, found),
        _grants(declared, found),
    ]
    changes = list(chain.from_iterable(stages))
    if faults:
        raise ConfigurationError("\n".join(faults))
    if prunes:
        changes += _pruned(declared, found)
    return changes


def policy_of(change: StateChange) -> tuple[str, StreamPolicy] | None:
    """Return the policy that a change sets, with its namespace; None if it sets none."""
    match change.target:
        case NamespaceTarget(name=name, policy=policy):
            return name, policy
        case StreamTarget(namespace=name, policy=StreamPolicy() as policy):
            return name, policy
    return None


# --- regions and namespaces ---------------------------------------------------------------------


def _regions(
    declared: DeclaredCluster, found: FoundCluster, *, prunes: bool
) -> Iterator[StateChange]:
    wanted, before = declared.regions, found.regions
    if wanted is None:
        return
    kept = () if prunes or before is None else before
    after = tuple(sorted({*wanted, *kept}))
    if after != before:
        names = None if before is None else ", ".join(before)
        action = ChangeAction.CREATE if before is None else ChangeAction.CHANGE
        field = FieldChange("regions", names, ", ".join(after))
        yield StateChange(action, RegionsTarget(before, after), (field,))


def _new_policy(
    name: str, item: DeclaredNamespace, found: FoundCluster, faults: list[str]
) -> StreamPolicy:
    """Return the policy that a namespace will have."""
    before = found.namespaces.get(name)
    if before is not None and item.is_store_stated and item.store != before.store:
        faults.append(
            f"{item.place}: namespace {name} is in the store {before.store or GLOBAL_STORE}, not "
            f"{item.store or GLOBAL_STORE}; move it with `rhumbline namespace move`"
        )
    if before is not None and item.policy is None:
        return before.policy
    kept = before.policy.quorum if before is not None else found.default_quorums.get(name)
    base = StreamPolicy() if kept is None else StreamPolicy(quorum=kept)
    if item.policy is None:
        return base
    try:
        return item.policy.over(base)
    except InvalidArgumentError as error:
        faults.append(f"{item.place}: namespace {name}: {error}")
        return base


def _namespace(
    name: str, item: DeclaredNamespace, before: FoundNamespace | None, policy: StreamPolicy
) -> Iterator[StateChange]:
    if before is None:
        fields = [FieldChange("store", None, item.store)] if item.store else []
        fields += _stated(policy, StreamPolicy())
        target = NamespaceTarget(name, item.store, policy)
        yield StateChange(ChangeAction.CREATE, target, tuple(fields), item.place)
    elif before.policy != policy:
        target = NamespaceTarget(name, before.store, policy)
        fields = list(_compared(flat_policy(before.policy), flat_policy(policy)))
        yield StateChange(ChangeAction.CHANGE, target, tuple(fields), item.place)


def _stated(policy: StreamPolicy, base: StreamPolicy) -> list[FieldChange]:
    """Return the values of a new policy that are not those of ``base``, and the quorum."""
    flat = flat_policy(policy)
    same = flat_policy(base)
    return [
        FieldChange(key, None, value)
        for key, value in flat.items()
        if key == "quorum" or same[key] != value
    ]


def _compared(before: Mapping[str, str], after: Mapping[str, str]) -> Iterator[FieldChange]:
    for key, value in after.items():
        if before.get(key) != value:
            yield FieldChange(key, before.get(key), value)


# --- streams and subscriptions ------------------------------------------------------------------


def _streams(
    name: str,
    item: DeclaredNamespace,
    before: FoundNamespace | None,
    policy: StreamPolicy,
    faults: list[str],
) -> Iterator[StateChange]:
    known = {} if before is None else before.streams
    was = policy if before is None else before.policy
    streams = sorted((item.streams or {}).items())
    for stream, wanted in streams:
        try:
            yield from _stream(name, stream, wanted, known.get(stream), was, policy)
        except InvalidArgumentError as error:
            faults.append(f"{wanted.place}: stream {stream}: {error}")
    for stream, wanted in streams:
        existing = known[stream].subscriptions if stream in known else frozenset()
        for subscription, start in sorted((wanted.subscriptions or {}).items()):
            if subscription not in existing:
                target = SubscriptionTarget(name, stream, subscription, start)
                fields = (FieldChange("from", None, start),)
                yield StateChange(ChangeAction.CREATE, target, fields, wanted.place)


def _stream(
    namespace: str,
    name: str,
    wanted: DeclaredStream,
    before: FoundStream | None,
    was: StreamPolicy,
    policy: StreamPolicy,
) -> Iterator[StateChange]:
    """Yield the change of a stream; its namespace had the policy ``was``, and gets ``policy``."""
    own = None
    if wanted.policy is None and before is not None:
        return
    if wanted.policy is not None and not wanted.policy.is_empty:
        own = wanted.policy.over(policy)
    if before is None:
        fields = tuple(_stated(own, policy)) if own is not None else ()
        target = StreamTarget(namespace, name, "", own)
        yield StateChange(ChangeAction.CREATE, target, fields, wanted.place)
    elif before.policy != own:
        shown = list(_compared(flat_policy(before.policy or was), flat_policy(own or policy)))
        if (before.policy is None) != (own is None):
            words = (FOLLOWS, OWN) if before.policy is None else (OWN, FOLLOWS)
            shown.insert(0, FieldChange("policy", *words))
        target = StreamTarget(namespace, name, before.identity, own)
        yield StateChange(ChangeAction.CHANGE, target, tuple(shown), wanted.place)


# --- quotas and grants --------------------------------------------------------------------------


def _quotas(declared: DeclaredCluster, found: FoundCluster) -> Iterator[StateChange]:
    known = dict(found.quotas.items())
    for subject, quota in sorted((declared.quotas or {}).items()):
        before = known.get(subject)
        if before != quota:
            action = ChangeAction.CREATE if before is None else ChangeAction.CHANGE
            fields = tuple(_compared_limits(before, quota))
            yield StateChange(action, QuotaTarget(subject, quota), fields)


def _compared_limits(before: Quota | None, after: Quota) -> Iterator[FieldChange]:
    for limit in LIMITS:
        was, becomes = getattr(before, limit, None), getattr(after, limit)
        if was != becomes:
            yield FieldChange(
                limit,
                None if was is None else str(was),
                None if becomes is None else str(becomes),
            )


def _grants(declared: DeclaredCluster, found: FoundCluster) -> Iterator[StateChange]:
    known = {grant[:3]: grant.actions for grant in found.grants.grants}
    for key, actions in sorted((declared.grants or {}).items()):
        before = known.get(key)
        if before != actions:
            action = ChangeAction.CREATE if before is None else ChangeAction.CHANGE
            was = None if before is None else _words(before)
            fields = (FieldChange("actions", was, _words(actions)),)
            yield StateChange(action, GrantTarget(grant_of(key, actions)), fields)


def _words(actions: Iterable[Action]) -> str:
    return ", ".join(sorted(actions))


# --- deletions ----------------------------------------------------------------------------------


def _pruned(declared: DeclaredCluster, found: FoundCluster) -> Iterator[StateChange]:
    delete = ChangeAction.DELETE
    for grant in found.grants.grants if declared.grants is not None else ():
        if grant[:3] not in (declared.grants or {}):
            yield StateChange(delete, GrantTarget(grant))
    for subject, _ in found.quotas.items() if declared.quotas is not None else ():
        if subject not in (declared.quotas or {}):
            yield StateChange(delete, QuotaTarget(subject, None))
    for name, item in sorted(declared.namespaces.items()):
        known = found.namespaces.get(name)
        if known is not None and item.streams is not None:
            yield from _pruned_streams(name, item.streams, known.streams)


def _pruned_streams(
    namespace: str, wanted: Mapping[str, DeclaredStream], known: Mapping[str, FoundStream]
) -> Iterator[StateChange]:
    delete = ChangeAction.DELETE
    for stream, declared in sorted(wanted.items()):
        if declared.subscriptions is not None and stream in known:
            for extra in sorted(known[stream].subscriptions - {*declared.subscriptions}):
                yield StateChange(delete, SubscriptionTarget(namespace, stream, extra, ""))
    for stream in sorted(known.keys() - wanted.keys()):
        identity = known[stream].identity
        yield StateChange(delete, StreamTarget(namespace, stream, identity, None))
