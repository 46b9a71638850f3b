"""``rhumbline proxy``: ls, drain, accept, release, home."""

import click

from ...client.connect import connect_proxies
from ...core.protocol.errors import InvalidArgumentError, NoSuchObjectError
from ...core.runtime.metadata_store import MetadataStore
from ...server.proxy_host import missing_grpc
from ..options import CommandSession, runs, session_options
from ..output import print_rows, say

_ROLES = ("write", "read")


@click.group()
def proxy() -> None:
    """A proxy serves streams to clients of its region."""


@proxy.command()
@session_options
@runs
async def ls(session: CommandSession) -> None:
    """Lists the proxies that are up."""
    async with session.client(moves_data=False) as client:
        rows = [
            {"address": address, **about}
            for address, about in (await _members(client.store)).items()
        ]
    print_rows(rows, session.output, empty="no proxy is up")


@proxy.command()
@click.argument("address")
@session_options
@runs
async def drain(session: CommandSession, address: str) -> None:
    """Lets a proxy take no more streams, and give up those that another one can take.

    Until `accept`, or until it is started again.
    """
    await _set_accepting(session, address, is_accepting=False)


@proxy.command()
@click.argument("address")
@session_options
@runs
async def accept(session: CommandSession, address: str) -> None:
    """Lets a proxy take streams again."""
    await _set_accepting(session, address, is_accepting=True)


@proxy.command()
@click.argument("stream")
@session_options
@runs
async def release(session: CommandSession, stream: str) -> None:
    """Lets the owner of a stream give it up; it is taken again with the next record."""
    from ...proxies.rpc import methods
    from ...proxies.rpc import rhumbline_pb2 as pb
    from ...proxies.write.claims import Claims

    namespace = session.settings.cluster.namespace
    async with session.client(moves_data=False) as client:
        claim = await Claims(client.store).owner(namespace, stream)
    if claim is None:
        raise NoSuchObjectError(f"no proxy owns stream {stream} of namespace {namespace}")
    request = pb.ReleaseStreamRequest(namespace=namespace, stream=stream)
    async with connect_proxies(f"grpc://{claim.address}") as caller:
        answer = await caller.call(methods.RELEASE_STREAM, request, pb.ReleaseStreamResponse)
    say(f"{claim.address} {'gave it up' if answer.was_owned else 'does not own it any more'}")


@proxy.command()
@click.argument("stream")
@click.argument("home_region")
@session_options
@runs
async def home(session: CommandSession, stream: str, home_region: str) -> None:
    """Says which region's write proxies should serve a stream. Its owner gives it up for them."""
    from ...proxies.write.claims import Claims

    async with session.client(moves_data=False) as client:
        namespace = client.namespace()
        await namespace.describe(stream)
        await Claims(client.store).set_home(namespace.name, stream, home_region)
    say(f"stream {stream} is at home in {home_region}")


async def _set_accepting(session: CommandSession, address: str, *, is_accepting: bool) -> None:
    async with session.client(moves_data=False) as client:
        if address not in await _members(client.store):
            raise InvalidArgumentError(f"no proxy at {address} is up; see `rhumbline proxy ls`")
    from ...proxies.rpc import methods
    from ...proxies.rpc import rhumbline_pb2 as pb

    async with connect_proxies(f"grpc://{address}") as caller:
        request = pb.SetAcceptingRequest(is_accepting=is_accepting)
        answer = await caller.call(methods.SET_ACCEPTING, request, pb.SetAcceptingResponse)
    word = "takes streams" if is_accepting else "takes no more streams"
    say(f"{address} {word}; it owns {answer.stream_count}")


async def _members(store: MetadataStore) -> dict[str, dict[str, object]]:
    try:
        from ...proxies.membership import list_members
    except ModuleNotFoundError as error:
        raise missing_grpc(error) from error
    found: dict[str, dict[str, object]] = {}
    for role in _ROLES:
        for member in await list_members(store, role):
            known = found.setdefault(member.address, {"roles": "", "region": member.region})
            known["roles"] = f"{known['roles']} {role}".strip()
            known["takes streams"] = member.is_accepting
    return found
