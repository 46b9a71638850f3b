"""``rhumbline spark``: the Spark jobs with the settings of this command line."""

import sys
from collections.abc import Callable
from typing import Any

import click

from ...core.protocol.errors import ConfigurationError
from ..options import Command, CommandSession, session_options

try:
    from ...spark.jobs.__main__ import main
except ModuleNotFoundError as error:
    raise ConfigurationError(f"Spark needs {error.name}: pip install 'rhumbline[spark]'") from error


@click.group()
def spark() -> None:
    """Jobs that Spark runs on many machines, or on the cores of this one.

    On a cluster give the same words to spark-submit: docs/how-to/archive-and-spark.md says how.
    """


def _job_options(command: Command) -> Command:
    chosen: list[Callable[[Command], Command]] = [
        click.option("--cold", help="URI of the cold store (default: cluster.cold)."),
        click.option("--master", help="Spark's master (default: all cores of this machine)."),
    ]
    for option in chosen:
        command = option(command)
    return command


def _run(
    session: CommandSession, job: str, cold: str | None, master: str | None, *more: str
) -> None:
    cold = cold or session.settings.cluster.cold
    if not cold:
        raise ConfigurationError("which cold store? give --cold URI, or set cluster.cold")
    words = [job, *more, "--cold", cold]
    if master:
        words += ["--master", master]
    if job != "verify":
        cluster = session.settings.cluster
        words += ["--metadata", session.metadata_uri(), "--namespace", cluster.namespace]
        if cluster.region:
            words += ["--region", cluster.region]
    if code := main(words):
        sys.exit(code)


@spark.command()
@click.argument("streams", nargs=-1)
@_job_options
@session_options
def archive(session: CommandSession, streams: tuple[str, ...], **given: Any) -> None:  # noqa: ANN401
    """Archives the completed segments of STREAMS (default: all) that have no archive yet."""
    _run(session, "archive", given["cold"], given["master"], *streams)


@spark.command()
@click.argument("prefix", required=False, default="")
@_job_options
@session_options
def verify(session: CommandSession, prefix: str, **given: Any) -> None:  # noqa: ANN401
    """Reads every byte of the archives below PREFIX and walks the chain."""
    _run(session, "verify", given["cold"], given["master"], *([prefix] if prefix else []))


@spark.command()
@click.argument("source")
@click.argument("target")
@click.option("--new-txids", is_flag=True, help="Records get new txids.")
@_job_options
@session_options
def replay(
    session: CommandSession,
    source: str,
    target: str,
    new_txids: bool,
    **given: Any,  # noqa: ANN401
) -> None:
    """Appends the archived records of SOURCE (NAMESPACE/STREAM) to the stream TARGET, once.

    A repeat appends only what the archive has got since.
    """
    more = ["--new-txids"] if new_txids else []
    _run(session, "replay", given["cold"], given["master"], source, target, *more)
