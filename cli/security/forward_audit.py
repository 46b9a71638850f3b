"""``security forward-audit``: appends the lines of an audit log to a stream of its own."""

import asyncio
import signal
from pathlib import Path
from random import Random

import click

from ...access.audit_follower import AuditFollower
from ...access.audit_forwarder import AuditForwarder
from ...core.protocol.errors import ConfigurationError
from ...core.runtime.tasks import Tasks, wait_until_done
from ...security.audit_settings import STDERR
from ..options import CommandSession, runs, session_options
from ..output import print_record
from ..output_schema import integer, prints, record, text
from ..servers.proxy import namespace_via, via_option


@click.command("forward-audit")
@click.argument("stream")
@click.option("--once", is_flag=True, help="End when all lines that exist are appended.")
@via_option
@prints(
    record(
        {
            "stream": text("Name of the stream."),
            "lines": integer("Lines that were appended."),
            "gaps": integer("Number of times that files were deleted before they were read."),
        }
    )
)
@session_options
@runs
async def forward_audit(session: CommandSession, stream: str, once: bool, via: str | None) -> None:
    """Append the lines of `audit.file` to STREAM, one record each, until Ctrl-C or SIGTERM.

    The stream is created if it does not exist. A restart continues where the last run ended. With
    --once the first error ends the command; otherwise it waits while the stream is not available.
    Without --via, STREAM must have no other writer.
    """
    file = session.settings.audit.file
    if not file or file == STDERR:
        raise ConfigurationError("audit.file is not set to a file: there is nothing to forward")
    follower = AuditFollower(Path(file))
    try:
        async with namespace_via(session, via) as namespace:
            forwarder = AuditForwarder(follower, namespace, stream, Random(), ends=once)
            await _until_signal(forwarder)
    finally:
        follower.close()
    print_record(
        {"stream": stream, "lines": forwarder.line_count, "gaps": follower.gap_count},
        session.output,
    )


async def _until_signal(forwarder: AuditForwarder) -> None:
    """Forward until it ends by itself, or a signal arrives. Raises the error of the forwarder."""
    tasks = Tasks(on_failure=lambda _: None)  # the error is raised below
    running = tasks.spawn(forwarder.run(), "forward audit log")
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, running.cancel)
    try:
        await wait_until_done(running)
        if not running.cancelled():
            running.result()
    finally:
        await tasks.aclose()
