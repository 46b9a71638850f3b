"""``rhumbline spark``: runs the Spark jobs with the settings of this command line."""

import sys
from collections.abc import Callable
from typing import Any

import click

from ...core.protocol.errors import ConfigurationError
from ...core.protocol.installation import needs_extra
from ..exit_codes import EXIT_FAILED, EXIT_UNAVAILABLE
from ..options import Command, CommandSession, session_options
from ..output import TABLE, print_document
from ..output_schema import done, integer, listing, maybe, prints, text
from ..topics.start_options import parse_time

with needs_extra("a Spark job", "spark"):
    from ...spark.jobs.__main__ import perform


@click.group()
def spark() -> None:
    """Run jobs with Spark, on the cores of this machine or on a Spark cluster.

    For a cluster pass the same arguments to spark-submit; see docs/how-to/archive-and-spark.md.
    """


def _job_options(command: Command) -> Command:
    chosen: list[Callable[[Command], Command]] = [
        click.option("--cold", help="URI of the cold store. [default: cluster.cold]"),
        click.option("--master", help="Spark master. [default: all cores of this machine]"),
    ]
    for option in chosen:
        command = option(command)
    return command


def _with_cluster(command: Command) -> Command:
    return click.option(
        "--without-cluster",
        is_flag=True,
        help="Do not contact a cluster, for copies of archives. All their readers must know "
        "feature level 4.",
    )(command)


def _cluster(session: CommandSession, given: dict[str, Any]) -> list[str]:
    if given["without_cluster"]:
        return ["--without-cluster"]
    return ["--metadata", session.metadata_uri()]


def _run(
    session: CommandSession, job: str, cold: str | None, master: str | None, *more: str
) -> None:
    cold = cold or session.settings.cluster.cold
    if not cold:
        raise ConfigurationError("no cold store: give --cold URI, or set cluster.cold")
    arguments = [job, *more, "--cold", cold]
    if master:
        arguments += ["--master", master]
    if job in ("archive", "replay", "split"):
        cluster = session.settings.cluster
        arguments += ["--metadata", session.metadata_uri(), "--namespace", cluster.namespace]
        if cluster.region:
            arguments += ["--region", cluster.region]
    outcome = perform(arguments)
    if session.output == TABLE:
        click.echo("\n".join(outcome.lines))
    else:
        document = {
            "segments": outcome.counts.get("segments"),
            "records": outcome.counts.get("records"),
            "undecoded": outcome.counts.get("undecoded"),
            "faults": outcome.faults,
            "remaining": list(outcome.remaining),
            "message": outcome.lines[-1],
        }
        print_document(document, session.output)
    if outcome.faults:
        sys.exit(EXIT_FAILED)
    if outcome.remaining:
        sys.exit(EXIT_UNAVAILABLE)


_OUTCOME = done(
    {
        "segments": maybe(integer("Segments, if the job counts them.")),
        "records": maybe(integer("Records, if the job counts them.")),
        "undecoded": maybe(integer("Records that `convert` could not decode.")),
        "faults": listing(text("Fault."), "Faults that were found."),
        "remaining": listing(
            text("Stream, and the segments that bookies hold."),
            "Only for erase: segments that bookies hold, from which nothing was erased.",
        ),
    }
)


@spark.command()
@click.argument("streams", nargs=-1)
@_job_options
@prints(_OUTCOME)
@session_options
def archive(session: CommandSession, streams: tuple[str, ...], **given: Any) -> None:  # noqa: ANN401
    """Archive the completed segments of STREAMS (default: all) that are not archived yet."""
    _run(session, "archive", given["cold"], given["master"], *streams)


@spark.command()
@click.argument("prefix", required=False, default="")
@_job_options
@prints(_OUTCOME)
@session_options
def verify(session: CommandSession, prefix: str, **given: Any) -> None:  # noqa: ANN401
    """Read every byte of the archives below PREFIX and verify the chain of digests."""
    _run(session, "verify", given["cold"], given["master"], *([prefix] if prefix else []))


def _incremental(command: Command) -> Command:
    chosen: list[Callable[[Command], Command]] = [
        click.option(
            "--checkpoint", required=True,
            help="Path or URI of a folder with the state of the job, the same in each run.",
        ),
        click.option(
            "--starting", default="earliest", show_default=True,
            help="First position, as in the option startingOffsets.",
        ),
    ]  # fmt: skip
    for option in chosen:
        command = option(command)
    return command


def _state(given: dict[str, Any]) -> list[str]:
    return ["--checkpoint", given["checkpoint"], "--starting", given["starting"]]


@spark.command()
@click.argument("source")
@click.argument("target")
@click.option(
    "--new-txids", is_flag=True, help="Assign new txids instead of keeping the archived ones."
)
@_incremental
@_job_options
@prints(_OUTCOME)
@session_options
def replay(
    session: CommandSession,
    source: str,
    target: str,
    new_txids: bool,
    **given: Any,  # noqa: ANN401
) -> None:
    """Append the archived records of SOURCE (NAMESPACE/STREAM) to the stream TARGET, exactly once.

    Running it again appends only records that were archived since.
    """
    more = ["--new-txids"] if new_txids else []
    arguments = (source, target, *_state(given), *more)
    _run(session, "replay", given["cold"], given["master"], *arguments)


@spark.command()
@click.argument("source")
@click.option("--stream", required=True, help="SQL expression for the name of the target stream.")
@click.option("--key", default="key", show_default=True, help="SQL expression for the new key.")
@_incremental
@_job_options
@prints(_OUTCOME)
@session_options
def split(
    session: CommandSession,
    source: str,
    stream: str,
    key: str,
    **given: Any,  # noqa: ANN401
) -> None:
    """Append the archived records of SOURCE (NAMESPACE/STREAM) to several streams, exactly once.

    The expressions use the columns txid, created, payload, key, headers and event_time.
    """
    more = [source, "--stream", stream, "--key", key, *_state(given)]
    _run(session, "split", given["cold"], given["master"], *more)


@spark.command()
@click.argument("prefix", required=False, default="")
@click.option("--to", required=True, help="URI of the other cold store.")
@click.option(
    "--target-metadata",
    metavar="URI",
    help="Metadata store of the cluster whose programs read the copy. It must have feature level 4 "
    "if the copy has compacted archives or erasures.  [default: not checked]",
)
@_job_options
@prints(_OUTCOME)
@session_options
def copy(session: CommandSession, prefix: str, to: str, **given: Any) -> None:  # noqa: ANN401
    """Copy the archives below PREFIX (NAMESPACE or NAMESPACE/STREAM) to another cold store."""
    more = [prefix] if prefix else []
    if given["target_metadata"]:
        more += ["--target-metadata", given["target_metadata"]]
    _run(session, "copy", given["cold"], given["master"], *more, "--to", to)


@spark.command()
@click.argument("prefix", required=False, default="")
@click.option(
    "--file-mib",
    type=click.IntRange(1, 192),
    default=128,
    show_default=True,
    help="Maximum total size of the files that are merged into one, in MiB.",
)
@click.option(
    "--grace-minutes",
    type=click.IntRange(0),
    default=60,
    show_default=True,
    help="Time for which replaced files are kept for running readers.",
)
@_with_cluster
@_job_options
@prints(_OUTCOME)
@session_options
def compact(session: CommandSession, prefix: str, **given: Any) -> None:  # noqa: ANN401
    """Move small archived segments below PREFIX (NAMESPACE or NAMESPACE/STREAM) to large files.

    The cluster must have feature level 4. Run it regularly: each run also deletes the files that
    earlier ones have replaced.
    """
    more = [prefix] if prefix else []
    more += ["--file-mib", str(given["file_mib"])]
    more += ["--grace-minutes", str(given["grace_minutes"]), *_cluster(session, given)]
    _run(session, "compact", given["cold"], given["master"], *more)


@spark.command()
@click.argument("prefix")
@click.option(
    "--keep-days",
    type=click.IntRange(0),
    help="Keep segments that were completed within this number of days.",
)
@click.option(
    "--keep-mib",
    type=click.IntRange(0),
    help="Keep at least this many MiB of payloads of each stream.",
)
@click.option(
    "--without-cluster",
    is_flag=True,
    help="Delete segments that a stream of the cluster still has: for copies of archives.",
)
@_job_options
@prints(_OUTCOME)
@session_options
def retain(session: CommandSession, prefix: str, **given: Any) -> None:  # noqa: ANN401
    """Delete old archived segments below PREFIX (NAMESPACE or NAMESPACE/STREAM).

    Whole segments are deleted, the oldest first, and never the newest one. Segments that a stream
    of the cluster has are kept: the policy of the stream decides about them.
    """
    if given["keep_days"] is None and given["keep_mib"] is None:
        raise ConfigurationError("no limit: give --keep-days, --keep-mib, or both")
    more = [prefix]
    for name in ("keep_days", "keep_mib"):
        if given[name] is not None:
            more += [f"--{name.replace('_', '-')}", str(given[name])]
    more += _cluster(session, given)
    if not given["without_cluster"] and session.settings.cluster.region:
        more += ["--region", session.settings.cluster.region]
    _run(session, "retain", given["cold"], given["master"], *more)


@spark.command()
@click.argument("prefix")
@click.option("--key", "keys", multiple=True, help="Erase records with this key. Repeatable.")
@click.option("--from-time", help="Erase records that were created at this time or later.")
@click.option("--before-time", help="Erase records that were created before this time.")
@click.option("--by", required=True, help="Who requests the erasure; recorded in the proof.")
@click.option(
    "--reason",
    required=True,
    help="Reason, such as a ticket number; recorded in the proof, so leave out the key.",
)
@click.option(
    "--grace-minutes",
    type=click.IntRange(0),
    default=60,
    show_default=True,
    help="Time for which replaced files are kept for running readers.",
)
@_with_cluster
@_job_options
@prints(_OUTCOME)
@session_options
def erase(
    session: CommandSession, prefix: str, keys: tuple[str, ...], from_time: str | None,
    before_time: str | None, **given: Any  # noqa: ANN401
) -> None:  # fmt: skip
    """Remove records from the archives below PREFIX (NAMESPACE or NAMESPACE/STREAM) for good.

    Erases the records that all given limits select. The cluster must have feature level 4. Only
    archives are changed: if bookies hold segments of these streams, the command names the segments
    and ends with exit code 5. Repeat it when they are archived and their ledgers are deleted.
    """
    more = [prefix, "--by", given["by"], "--reason", given["reason"]]
    more += ["--grace-minutes", str(given["grace_minutes"]), *_cluster(session, given)]
    more += [text for key in keys for text in ("--key", key)]
    for name, time in (("--from-ms", from_time), ("--before-ms", before_time)):
        if time is not None:
            more += [name, str(parse_time(time))]
    _run(session, "erase", given["cold"], given["master"], *more)


@spark.command()
@click.argument("namespace")
@click.option("--streams", default=".*", show_default=True, help="Regular expression for names.")
@click.option("--table", required=True, help="Path or URI of the Parquet table.")
@click.option("--page", help="HTML page with plots to write.")
@_job_options
@prints(_OUTCOME)
@session_options
def profile(session: CommandSession, namespace: str, **given: Any) -> None:  # noqa: ANN401
    """Describe the archived streams of NAMESPACE by hour: counts, sizes, rates and keys."""
    more = [namespace, "--streams", given["streams"], "--table", given["table"]]
    if given["page"]:
        more += ["--page", given["page"]]
    _run(session, "profile", given["cold"], given["master"], *more)


@spark.command()
@click.argument("source")
@click.option("--table", required=True, help="Path or URI of the Parquet table.")
@click.option(
    "--columns",
    help="Columns of a payload, as DDL of Spark. [default: by the schema stored with the stream]",
)
@click.option("--function", help="module:function that decodes a payload. [default: JSON]")
@click.option(
    "--date",
    type=click.Choice(["created", "event_time"]),
    default="created",
    show_default=True,
    help="Time by which rows are partitioned.",
)
@_job_options
@prints(_OUTCOME)
@session_options
def convert(session: CommandSession, source: str, **given: Any) -> None:  # noqa: ANN401
    """Decode the archived payloads of SOURCE (NAMESPACE/STREAM) into a typed table.

    Running it again appends what was archived since.
    """
    more = [source, "--table", given["table"], "--date", given["date"]]
    if given["columns"]:
        more += ["--columns", given["columns"]]
    else:
        more += ["--metadata", session.metadata_uri()]
    if given["function"]:
        more += ["--function", given["function"]]
    _run(session, "convert", given["cold"], given["master"], *more)
