"""``rhumbline proxy``: ls, drain, undrain, release."""

from typing import TYPE_CHECKING, Any

import click

from ...client.connect import connect_proxies
from ...core.protocol.errors import InvalidArgumentError, NoSuchObjectError, UnavailableError
from ...proxies.client.discovery.config import DiscoveryConfig
from ..options import CommandSession, runs, session_options
from ..output import TABLE, print_done, print_rows
from ..output_schema import done, flag, integer, prints, record, rows, text
from ..overview.proxies import PROXY_ROW, ROLES, operator_address_of, read_proxies
from ..waiting import list_when, wait_count_options
from .proxy_balancing import COMMANDS

if TYPE_CHECKING:
    from ...proxies.client.proxy_client import ProxyClient

THIS_PROXY = DiscoveryConfig(refresh_ms=0)
"""For calls to one proxy and no other."""


@click.group()
def proxy() -> None:
    """Show the proxies, and move streams between them."""


for _command in COMMANDS:
    proxy.add_command(_command)


@proxy.command()
@click.option("--role", type=click.Choice(ROLES), help="Only proxies with this role.")
@click.option("--uri", "shows_uri", is_flag=True,
              help="Print one URI with all addresses, as --via expects it.")  # fmt: skip
@wait_count_options("proxies")
@prints(rows(record(PROXY_ROW)))
@session_options
@runs
async def ls(
    session: CommandSession,
    role: str | None,
    shows_uri: bool,
    wait_count: int | None,
    timeout_ms: int,
) -> None:
    """List the proxies that are registered, with what each serves now."""
    async with session.client(moves_data=False) as client:

        async def check() -> list[dict[str, Any]]:
            return await read_proxies(client.store, role)

        found = await list_when(check, wait_count, timeout_ms=timeout_ms, things="proxies")
    nothing = f"no {f'{role} ' if role else ''}proxy is up"
    if not shows_uri or (found and session.output != TABLE):
        print_rows(found, session.output, empty=nothing)
    elif found:
        click.echo("grpc://" + ",".join(str(row["address"]) for row in found))
    else:
        raise UnavailableError(nothing)


_ACCEPTING = done(
    {
        "address": text("host:port of the proxy."),
        "accepts_streams": flag("Whether it accepts streams now."),
        "owned_streams": integer("Streams that it still owns."),
    }
)


@proxy.command()
@click.argument("address")
@prints(_ACCEPTING)
@session_options
@runs
async def drain(session: CommandSession, address: str) -> None:
    """Drain a proxy: it accepts no more streams, and releases those that another proxy can serve.

    This lasts until `undrain` or a restart of the proxy.
    """
    await _set_accepting(session, address, is_accepting=False)


@proxy.command()
@click.argument("address")
@prints(_ACCEPTING)
@session_options
@runs
async def undrain(session: CommandSession, address: str) -> None:
    """Let a proxy accept streams again."""
    await _set_accepting(session, address, is_accepting=True)


@proxy.command()
@click.argument("stream")
@prints(
    done(
        {
            "stream": text("Name of the stream."),
            "address": text("host:port of the proxy."),
            "was_owned": flag("False if the proxy did not own the stream any more."),
        }
    )
)
@session_options
@runs
async def release(session: CommandSession, stream: str) -> None:
    """Make the owner of a stream release it; the next record makes a proxy acquire it again."""
    from ...proxies.rpc import methods
    from ...proxies.rpc import rhumbline_pb2 as pb
    from ...proxies.write.claims import Claims

    namespace = session.settings.cluster.namespace
    async with session.client(moves_data=False) as client:
        store = client.namespace().store
        claim = await Claims(store).owner(namespace, stream)
        if claim is None:
            raise NoSuchObjectError(f"no proxy owns stream {stream} of namespace {namespace}")
        called = await operator_address_of(store, claim.address)
    request = pb.ReleaseStreamRequest(namespace=namespace, stream=stream)
    async with _connected(session, called) as caller:
        response = await caller.call(methods.RELEASE_STREAM, request, pb.ReleaseStreamResponse)
    message = "released stream" if response.was_owned else "no longer owns stream"
    print_done(
        {"stream": stream, "address": claim.address, "was_owned": response.was_owned},
        session.output,
        f"{claim.address} {message} {stream}",
    )


def _connected(session: CommandSession, address: str) -> "ProxyClient":
    """Return a client of one proxy, at its address for operators."""
    return connect_proxies(
        f"grpc://{address}",
        discovery=THIS_PROXY,
        credentials=session.protection.connecting,
        token=session.token(),
    )


async def _set_accepting(session: CommandSession, address: str, *, is_accepting: bool) -> None:
    async with session.client(moves_data=False) as client:
        rows = {row["address"]: row for row in await read_proxies(client.store)}
        if address not in rows:
            raise InvalidArgumentError(f"no proxy is up at {address}; see `rhumbline proxy ls`")
        called = rows[address]["operator_address"] or address
    from ...proxies.rpc import methods
    from ...proxies.rpc import rhumbline_pb2 as pb

    async with _connected(session, called) as caller:
        request = pb.SetAcceptingRequest(is_accepting=is_accepting)
        response = await caller.call(methods.SET_ACCEPTING, request, pb.SetAcceptingResponse)
    state = "accepts_streams" if is_accepting else "accepts no more streams"
    print_done(
        {
            "address": address,
            "accepts_streams": is_accepting,
            "owned_streams": response.stream_count,
        },
        session.output,
        f"{address} {state}; it owns {response.stream_count}",
    )
