"""``rhumbline namespace``: create, ls, describe, set-policy, delete."""

from collections.abc import Sequence

import click

from ...core.log.namespace import create_namespace, delete_namespace, list_namespaces
from ...core.log.policy import StreamPolicy
from ...core.protocol.errors import InvalidArgumentError
from ...core.protocol.placement import BookieInfo
from ..options import CommandSession, runs, session_options
from ..output import print_message, print_record, print_rows
from .policy_options import (
    PolicyOptions,
    default_quorum,
    describe_policy,
    policy_options,
)


@click.group()
def namespace() -> None:
    """Create, show and delete namespaces: groups of streams with a common policy."""


@namespace.command()
@click.argument("name")
@policy_options
@session_options
@runs
async def create(session: CommandSession, name: str, policy: PolicyOptions) -> None:
    """Create a namespace.

    The default quorum fits the regions of the cluster, or those of --regions: one copy in each,
    acknowledged by a majority of them.
    """
    async with session.client(moves_data=False) as client:
        known = await client.directory.configured()
        allowed = policy.allowed_regions
        chosen = policy.apply_to(StreamPolicy(quorum=default_quorum(known, allowed)))
        _check_regions(chosen, known)
        await create_namespace(client.store, client.runtime, name, chosen)
        print_message(f"namespace {name} was created; quorum E/WQ/AQ/R {chosen.quorum}")


@namespace.command()
@session_options
@runs
async def ls(session: CommandSession) -> None:
    """List the namespaces."""
    async with session.client(moves_data=False) as client:
        rows = []
        after = None
        while page := await list_namespaces(client.store, after=after):
            for name in page:
                known = await client.namespace(name).policy()
                regions = ", ".join(known.regions) or "all"
                rows.append({"namespace": name, "quorum": str(known.quorum), "regions": regions})
            after = page[-1]
        print_rows(rows, session.output, empty="no namespace; create one")


@namespace.command()
@click.argument("name")
@session_options
@runs
async def describe(session: CommandSession, name: str) -> None:
    """Show the policy of a namespace."""
    async with session.client(moves_data=False) as client:
        known = await client.namespace(name).policy()
        print_record({"namespace": name, **describe_policy(known)}, session.output)


@namespace.command("set-policy")
@click.argument("name")
@policy_options
@session_options
@runs
async def set_policy(session: CommandSession, name: str, policy: PolicyOptions) -> None:
    """Change the policy; streams that follow it apply it from their next segment on."""
    async with session.client(moves_data=False) as client:
        opened = client.namespace(name)
        chosen = policy.apply_to(await opened.policy())
        _check_regions(chosen, await client.directory.configured())
        await opened.set_policy(chosen)
        print_record({"namespace": name, **describe_policy(chosen)}, session.output)


@namespace.command()
@click.argument("name")
@session_options
@runs
async def delete(session: CommandSession, name: str) -> None:
    """Delete an empty namespace."""
    async with session.client(moves_data=False) as client:
        await delete_namespace(client.store, name)
        print_message(f"namespace {name} was deleted")


def _check_regions(policy: StreamPolicy, known: Sequence[BookieInfo]) -> None:
    regions = sorted({str(info.region) for info in known if info.region is not None})
    for name in policy.regions:
        if name not in regions:
            known_regions = ", ".join(regions) or "none"
            raise InvalidArgumentError(
                f"no bookie is in region {name}; the regions are: {known_regions}"
            )
