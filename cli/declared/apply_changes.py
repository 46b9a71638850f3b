"""Carries out the changes that make a cluster what files declare."""

from ...access.grant_store import change_grants
from ...client.connect import Client
from ...core.metadata.declared_regions import add_region, declare_regions, remove_region
from ...core.protocol.errors import NoSuchStreamError, NoSuchSubscriptionError
from ...proxies.quotas.quota_store import QuotaStore
from ...security.grant_table import GrantTable
from ...security.grants import Grant
from ..topics.start_options import parse_start
from .state_change import (
    ChangeAction,
    GrantTarget,
    NamespaceTarget,
    QuotaTarget,
    RegionsTarget,
    StateChange,
    StreamTarget,
    SubscriptionTarget,
)


async def apply_change(client: Client, change: StateChange) -> None:
    """Carry out one change. Raises what the calls raise; a repeat of the command continues."""
    action = change.action
    match change.target:
        case RegionsTarget() as regions:
            await _change_regions(client, regions)
        case NamespaceTarget(name=name, store=store, policy=policy):
            if action is ChangeAction.CREATE:
                await client.namespaces.create(name, policy, store)
            else:
                await client.namespace(name).set_policy(policy)
        case StreamTarget() as stream:
            await _change_stream(client, action, stream)
        case SubscriptionTarget() as subscription:
            await _change_subscription(client, action, subscription)
        case QuotaTarget(subject=subject, quota=quota):
            await QuotaStore(client.store).change(
                lambda table: (
                    table.without(subject) if quota is None else table.with_quota(subject, quota)
                )
            )
        case GrantTarget(grant=grant):
            keeps = action is not ChangeAction.DELETE
            await change_grants(client.store, lambda table: _replaced(table, grant, keeps=keeps))


async def _change_regions(client: Client, regions: RegionsTarget) -> None:
    if regions.before is None:
        await declare_regions(client.store, client.directory, regions.after)
        return
    for name in regions.after:
        await add_region(client.store, name)
    for name in regions.before:
        if name not in regions.after:
            await remove_region(client.store, client.directory, name)


async def _change_stream(client: Client, action: ChangeAction, stream: StreamTarget) -> None:
    namespace = client.namespace(stream.namespace)
    if action is ChangeAction.CREATE:
        await namespace.create_stream(stream.name, stream.policy)
    elif action is ChangeAction.CHANGE:
        await namespace.set_stream_policy(stream.name, stream.policy)
    else:
        try:
            await namespace.delete_stream(stream.name, identity=stream.identity)
        except NoSuchStreamError:
            return  # it was deleted meanwhile


async def _change_subscription(
    client: Client, action: ChangeAction, subscription: SubscriptionTarget
) -> None:
    namespace = client.namespace(subscription.namespace)
    stream, name = subscription.stream, subscription.name
    if action is ChangeAction.DELETE:
        try:
            await namespace.subscriptions.delete(stream, name)
        except NoSuchSubscriptionError:
            return  # it was deleted meanwhile
        return
    reader = await namespace.open_reader(stream, parse_start(subscription.start))
    try:
        await namespace.subscriptions.create(stream, name, reader.confirmed_position())
    finally:
        await reader.aclose()


def _replaced(table: GrantTable, grant: Grant, *, keeps: bool) -> GrantTable:
    """Return the table with ``grant`` in the place of what its key had; without it if not kept."""
    others = [one for one in table.grants if one[:3] != grant[:3]]
    return GrantTable([*others, grant] if keeps else others)
