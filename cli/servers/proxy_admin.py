"""``rhumbline proxy``: ls, drain, accept, release, home."""

import click

from ...client.connect import connect_proxies
from ...core.protocol.errors import InvalidArgumentError, NoSuchObjectError, UnavailableError
from ...core.protocol.installation import needs_extra
from ...core.runtime.metadata_store import MetadataStore
from ..options import CommandSession, runs, session_options
from ..output import print_message, print_rows
from ..waiting import list_when, wait_count_options

_ROLES = ("write", "read")


@click.group()
def proxy() -> None:
    """Show the proxies, and move streams between them."""


@proxy.command()
@click.option("--role", type=click.Choice(_ROLES), help="Only proxies with this role.")
@click.option("--uri", "shows_uri", is_flag=True,
              help="Print one URI with all addresses, as --via expects it.")  # fmt: skip
@wait_count_options("proxies")
@session_options
@runs
async def ls(
    session: CommandSession,
    role: str | None,
    shows_uri: bool,
    wait_count: int | None,
    timeout_ms: int,
) -> None:
    """List the proxies that are up."""
    async with session.client(moves_data=False) as client:

        async def check() -> list[dict[str, object]]:
            members = await _members(client.store)
            return [
                {"address": address, **properties}
                for address, properties in members.items()
                if role is None or role in str(properties["roles"]).split()
            ]

        rows = await list_when(check, wait_count, timeout_ms=timeout_ms, things="proxies")
    if not shows_uri:
        print_rows(rows, session.output, empty="no proxy is up")
    elif rows:
        click.echo("grpc://" + ",".join(str(row["address"]) for row in rows))
    else:
        raise UnavailableError("no proxy is up")


@proxy.command()
@click.argument("address")
@session_options
@runs
async def drain(session: CommandSession, address: str) -> None:
    """Drain a proxy: it accepts no more streams, and releases those that another proxy can serve.

    This lasts until `accept` or a restart of the proxy.
    """
    await _set_accepting(session, address, is_accepting=False)


@proxy.command()
@click.argument("address")
@session_options
@runs
async def accept(session: CommandSession, address: str) -> None:
    """Let a proxy accept streams again."""
    await _set_accepting(session, address, is_accepting=True)


@proxy.command()
@click.argument("stream")
@session_options
@runs
async def release(session: CommandSession, stream: str) -> None:
    """Make the owner of a stream release it; the next record makes a proxy acquire it again."""
    from ...proxies.rpc import methods
    from ...proxies.rpc import rhumbline_pb2 as pb
    from ...proxies.write.claims import Claims

    namespace = session.settings.cluster.namespace
    async with session.client(moves_data=False) as client:
        claim = await Claims(client.namespace().store).owner(namespace, stream)
    if claim is None:
        raise NoSuchObjectError(f"no proxy owns stream {stream} of namespace {namespace}")
    request = pb.ReleaseStreamRequest(namespace=namespace, stream=stream)
    async with connect_proxies(f"grpc://{claim.address}") as caller:
        response = await caller.call(methods.RELEASE_STREAM, request, pb.ReleaseStreamResponse)
    if response.was_owned:
        print_message(f"{claim.address} released stream {stream}")
    else:
        print_message(f"{claim.address} no longer owns stream {stream}")


@proxy.command()
@click.argument("stream")
@click.argument("home_region")
@session_options
@runs
async def home(session: CommandSession, stream: str, home_region: str) -> None:
    """Set the region whose write proxies should serve a stream. The current owner releases it."""
    from ...proxies.write.claims import Claims

    async with session.client(moves_data=False) as client:
        namespace = client.namespace()
        await namespace.describe(stream)
        await Claims(namespace.store).set_home(namespace.name, stream, home_region)
    print_message(f"the home region of stream {stream} is {home_region}")


async def _set_accepting(session: CommandSession, address: str, *, is_accepting: bool) -> None:
    async with session.client(moves_data=False) as client:
        if address not in await _members(client.store):
            raise InvalidArgumentError(f"no proxy is up at {address}; see `rhumbline proxy ls`")
    from ...proxies.rpc import methods
    from ...proxies.rpc import rhumbline_pb2 as pb

    async with connect_proxies(f"grpc://{address}") as caller:
        request = pb.SetAcceptingRequest(is_accepting=is_accepting)
        response = await caller.call(methods.SET_ACCEPTING, request, pb.SetAcceptingResponse)
    state = "accepts streams" if is_accepting else "accepts no more streams"
    print_message(f"{address} {state}; it owns {response.stream_count}")


async def _members(store: MetadataStore) -> dict[str, dict[str, object]]:
    with needs_extra("a proxy", "grpc"):
        from ...proxies.membership import list_members
    found: dict[str, dict[str, object]] = {}
    for role in _ROLES:
        for member in await list_members(store, role):
            known = found.setdefault(member.address, {"roles": "", "region": member.region})
            known["roles"] = f"{known['roles']} {role}".strip()
            known["accepts streams"] = member.is_accepting
    return found
