"""``rhumbline console``: serve the web console of a cluster."""

import asyncio
import signal

import click

from ...client.units import parse_ms
from ...core.protocol.errors import InvalidArgumentError
from ...core.protocol.installation import needs_extra
from ...server.ports import port_of
from ..options import CommandSession, runs, session_options, setting_option
from ..output import print_done, print_message
from ..output_schema import done, prints, text
from ..servers.service_manager import notify_ready

INTERVAL_MS_MIN = 200


@click.command()
@setting_option("serve.host", "--host")
@setting_option("serve.port", "--port")
@click.option("--interval", default="1s", show_default=True, help="Time between two samples.")
@click.option("--actions", "allows_actions", is_flag=True,
              help="Let visitors who may administer the cluster change it.")  # fmt: skip
@prints(done({"url": text("Address of the console for a browser.")}))
@session_options
@runs
async def console(session: CommandSession, interval: str, *, allows_actions: bool) -> None:
    """Serve a web console that shows the cluster live, until Ctrl-C or SIGTERM.

    It needs rhumbline[console]. Visitors are identified by certificate or token, as callers of
    proxies are, and see only what grants allow. The console only reads, unless --actions is given:
    then visitors who may administer the cluster can drain bookies and regions, and roll and repair
    streams. The cluster is sampled only while a page is open.
    """
    interval_ms = parse_ms(interval)
    if interval_ms < INTERVAL_MS_MIN:
        raise InvalidArgumentError(f"--interval {interval} is below {INTERVAL_MS_MIN} ms")
    with needs_extra("the console", "console"):
        from .serving import running_console
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    serve = session.settings.serve
    with session.server_log("console"):
        async with (
            session.client(moves_data=allows_actions) as client,
            running_console(
                client,
                host=serve.host,
                port=port_of("console", serve.port),
                interval_s=interval_ms / 1000,
                protection=session.protection,
                allows_actions=allows_actions,
            ) as url,
        ):
            message = f"the console is at {url}"
            print_done({"url": url}, session.output, message)
            notify_ready(message)
            await stop.wait()
            print_message("the console is stopping")
