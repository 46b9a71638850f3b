"""``rhumbline namespace``: create, ls, describe, set-policy, delete."""

import click

from ..core.log.namespace import create_namespace, delete_namespace, list_namespaces
from ..core.log.policy import StreamPolicy
from .options import Session, runs, session_options
from .output import print_record, print_rows, say
from .policies import PolicyOptions, default_quorum, describe_policy, policy_options


@click.group()
def namespace() -> None:
    """A namespace holds streams and the policy that they follow."""


@namespace.command()
@click.argument("name")
@policy_options
@session_options
@runs
async def create(session: Session, name: str, policy: PolicyOptions) -> None:
    """Makes a namespace. Without --quorum it fits the cluster: copies in most regions."""
    async with session.client(moves_data=False) as client:
        quorum = default_quorum(await client.directory.snapshot())
        chosen = policy.apply_to(StreamPolicy(quorum=quorum))
        await create_namespace(client.store, client.runtime, name, chosen)
        say(f"namespace {name} was created; quorum E/WQ/AQ/R {chosen.quorum}")


@namespace.command()
@session_options
@runs
async def ls(session: Session) -> None:
    """Lists the namespaces."""
    async with session.client(moves_data=False) as client:
        rows = []
        after = None
        while page := await list_namespaces(client.store, after=after):
            for name in page:
                known = await client.namespace(name).policy()
                rows.append({"namespace": name, "quorum": str(known.quorum)})
            after = page[-1]
        print_rows(rows, session.output, empty="there is no namespace; create one")


@namespace.command()
@click.argument("name")
@session_options
@runs
async def describe(session: Session, name: str) -> None:
    """Shows the policy of a namespace."""
    async with session.client(moves_data=False) as client:
        known = await client.namespace(name).policy()
        print_record({"namespace": name, **describe_policy(known)}, session.output)


@namespace.command("set-policy")
@click.argument("name")
@policy_options
@session_options
@runs
async def set_policy(session: Session, name: str, policy: PolicyOptions) -> None:
    """Changes the policy; streams that follow it take it up with their next segment."""
    async with session.client(moves_data=False) as client:
        opened = client.namespace(name)
        chosen = policy.apply_to(await opened.policy())
        await opened.set_policy(chosen)
        print_record({"namespace": name, **describe_policy(chosen)}, session.output)


@namespace.command()
@click.argument("name")
@session_options
@runs
async def delete(session: Session, name: str) -> None:
    """Deletes an empty namespace."""
    async with session.client(moves_data=False) as client:
        await delete_namespace(client.store, name)
        say(f"namespace {name} was deleted")
