"""The command line of the Spark jobs: ``python -m rhumbline.spark.jobs JOB ...``."""

import argparse
import asyncio
import os
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from ...client.connect import Client
from ...client.system_runtime import SystemClock
from ...client.units import show_count
from ...coldstore.compact.permission import require_relocations
from ...coldstore.erase.erased_set import half_open_ranges
from ...coldstore.erase.hot_copies import HotSegments, segments_on_bookies
from ...core.protocol.errors import RhumblineError
from ...typed import SchemaHistory
from ..hadoop_settings import s3_environment
from ..session import open_session
from .outcome import JobOutcome

if TYPE_CHECKING:
    from .incremental import AppendTarget, ArchivedSource

_COMPACTED = "compacted archives"
_WRITES_RELOCATIONS = {"compact": _COMPACTED, "erase": "erasures from archives"}
"""Jobs that need a feature level."""

EXIT_INCOMPLETE = 5
"""The exit code if the same job has to do the rest later."""

Job = Callable[[SparkSession, argparse.Namespace], JobOutcome]


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="rhumbline.spark.jobs", description=__doc__)
    jobs = parser.add_subparsers(dest="job", required=True)
    texts = {
        "archive": "copy completed segments to the cold store",
        "verify": "read every byte of an archive and check the chain of segments",
        "replay": "append archived records to a stream, exactly once",
        "split": "append archived records to several streams, with new keys, exactly once",
        "copy": "copy archives to another cold store",
        "compact": "move the records of small archived segments to few large files",
        "retain": "delete old archived segments",
        "erase": "remove records from archives by key or time, and keep the proof",
        "profile": "describe archived streams by hour, as a table and a page with plots",
        "convert": "decode archived payloads into a typed table, partitioned by date",
    }
    commands = {
        name: jobs.add_parser(name, help=text, description=text) for name, text in texts.items()
    }
    for command in commands.values():
        command.add_argument("--cold", required=True, help="URI of the cold store")
        command.add_argument("--master", help="Spark's master, unless spark-submit sets it")
    commands["archive"].add_argument("streams", nargs="*", help="streams (default: all)")
    for name in ("verify", "copy", "compact"):
        commands[name].add_argument(
            "prefix", nargs="?", default="", help="NAMESPACE or NAMESPACE/STREAM"
        )
    commands["copy"].add_argument("--to", required=True, help="URI of the other cold store")
    commands["copy"].add_argument(
        "--target-metadata", help="URI of the cluster whose programs read the copy"
    )
    for name in ("replay", "split", "convert"):
        commands[name].add_argument("source", help="NAMESPACE/STREAM in the archive")
    for name in ("replay", "split"):
        _add_incremental(commands[name])
    commands["replay"].add_argument("target", help="stream to append to")
    commands["replay"].add_argument(
        "--new-txids", action="store_true", help="assign new txids instead of keeping them"
    )
    splitting, profiling, converting = (commands[n] for n in ("split", "profile", "convert"))
    splitting.add_argument("--stream", required=True, help="SQL expression for the target stream")
    splitting.add_argument("--key", default="key", help="SQL expression for the new key")
    profiling.add_argument("namespace", help="namespace in the archive")
    profiling.add_argument("--streams", default=".*", help="regular expression for whole names")
    profiling.add_argument("--page", type=Path, help="HTML page to write")
    for command in (profiling, converting):
        command.add_argument("--table", required=True, help="path or URI of the Parquet table")
    converting.add_argument("--columns", help="columns of a payload, as DDL")
    converting.add_argument("--metadata", help="URI of the cluster, for the stored schema")
    converting.add_argument("--function", help="module:function that decodes a payload")
    converting.add_argument("--date", choices=("created", "event_time"), default="created")
    for name in ("archive", "replay", "split"):
        commands[name].add_argument("--metadata", required=True, help="URI of the cluster")
        commands[name].add_argument("--namespace", default="default", help="namespace of streams")
        commands[name].add_argument("--region", help="region of the executors")
    _add_compaction(commands["compact"])
    _add_retention(commands["retain"])
    _add_erasure(commands["erase"])
    for name in ("compact", "erase"):
        _add_cluster(
            commands[name],
            "URI of the cluster whose programs read the archive",
            "all readers know compacted archives",
        )
    for name in ("archive", "verify", "copy", "compact", "erase"):
        commands[name].add_argument("--tasks", type=int, help="number of parallel tasks")
    return parser


def _add_incremental(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--checkpoint", required=True, help="folder with the state of the job, for its next run"
    )
    command.add_argument(
        "--starting", default="earliest", help="first position, as in option startingOffsets"
    )


def _add_compaction(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--file-mib", type=int, default=128, help="largest sum of the files that one replaces"
    )
    command.add_argument(
        "--grace-minutes", type=int, default=60, help="time for which replaced files are kept"
    )


def _add_retention(command: argparse.ArgumentParser) -> None:
    command.add_argument("prefix", help="NAMESPACE or NAMESPACE/STREAM")
    command.add_argument(
        "--keep-days", type=int, help="keep what was completed within this number of days"
    )
    command.add_argument("--keep-mib", type=int, help="keep so much of each stream's payloads")
    command.add_argument("--region", help="region of the driver")
    _add_cluster(
        command, "URI of the cluster, whose segments are kept", "no cluster needs the segments"
    )


def _add_cluster(command: argparse.ArgumentParser, given: str, without: str) -> None:
    chosen = command.add_mutually_exclusive_group(required=True)
    chosen.add_argument("--metadata", help=given)
    chosen.add_argument("--without-cluster", action="store_true", help=without)


def _add_erasure(command: argparse.ArgumentParser) -> None:
    command.add_argument("prefix", help="NAMESPACE or NAMESPACE/STREAM")
    command.add_argument("--key", action="append", default=[], help="key of records (repeatable)")
    command.add_argument("--from-ms", type=int, help="first time of creation, in ms since 1970")
    command.add_argument("--before-ms", type=int, help="end of the range of times, in ms")
    command.add_argument("--by", required=True, help="who erases, for the proof")
    command.add_argument("--reason", required=True, help="why, for the proof, without the key")
    command.add_argument(
        "--grace-minutes", type=int, default=60, help="time for which replaced files are kept"
    )


def _archive(spark: SparkSession, options: argparse.Namespace) -> JobOutcome:
    from .archive import ArchiveJob, archive

    job = ArchiveJob(options.metadata, options.namespace, options.region, options.cold)
    done = archive(spark, job, options.streams, tasks=options.tasks)
    records = sum(manifest.record_count for manifest in done.manifests)
    segments = len(done.manifests)
    line = f"archived {show_count(segments, 'segment')}, {show_count(records, 'record')}"
    faults = [f"{stream}: {text}" for stream, text in sorted(done.faults.items())]
    return JobOutcome([*faults, line], faults, {"segments": segments, "records": records})


def _verify(spark: SparkSession, options: argparse.Namespace) -> JobOutcome:
    from .verify import verify

    found = verify(spark, options.cold, options.prefix, tasks=options.tasks)
    faults = [f"{name}: {text}" for name, texts in found.items() for text in texts]
    total = f"{show_count(len(found), 'segment')}, {show_count(len(faults), 'fault')}"
    return JobOutcome([*faults, total], faults, {"segments": len(found)})


def _copy(spark: SparkSession, options: argparse.Namespace) -> JobOutcome:
    from .copying import copy_archives

    def check_readers() -> None:
        if options.target_metadata is not None:
            asyncio.run(_require_relocations(options.target_metadata, _COMPACTED))

    done = copy_archives(
        spark,
        options.cold,
        options.to,
        options.prefix,
        check_readers=check_readers,
        tasks=options.tasks,
    )
    records = sum(manifest.record_count for manifest in done.copied)
    faults = [text for _, text in sorted(done.faults.items())]
    line = f"copied {show_count(len(done.copied), 'segment')}, {show_count(records, 'record')}"
    if done.relocations:
        line += f", {show_count(done.relocations, 'relocation')}"
    return JobOutcome([*faults, line], faults, {"segments": len(done.copied), "records": records})


def _compact(spark: SparkSession, options: argparse.Namespace) -> JobOutcome:
    from ...coldstore.compact.compactor import MIB, CompactionConfig
    from .compact import compact

    grace_ms = options.grace_minutes * 60_000
    config = CompactionConfig(file_bytes=options.file_mib * MIB, grace_ms=grace_ms)
    done = compact(spark, options.cold, options.prefix, config, tasks=options.tasks)
    faults = [f"{name}: {text}" for name, text in sorted(done.faults.items())]
    line = (
        f"moved {show_count(done.segments, 'segment')} to {show_count(done.files, 'file')}, merged "
        f"{show_count(done.merged, 'file')}, deleted {show_count(done.deleted, 'file')}"
    )
    return JobOutcome([*faults, line], faults, {"segments": done.segments})


def _retain(_: SparkSession, options: argparse.Namespace) -> JobOutcome:
    from ...coldstore.archive.retention import RetentionLimits
    from .retain import retain_archives

    days, mib = options.keep_days, options.keep_mib
    limits = RetentionLimits(
        None if days is None else SystemClock().wall_ms() - days * 86_400_000,
        None if mib is None else mib << 20,
    )
    namespace, _, stream = options.prefix.partition("/")
    done = retain_archives(
        options.cold, namespace, limits, stream=stream, metadata=options.metadata,
        region=options.region,
    )  # fmt: skip
    faults = [f"{name}: {text}" for name, text in sorted(done.faults.items())]
    segments = sum(len(lssns) for lssns in done.deleted.values())
    line = f"deleted {show_count(segments, 'segment')} of {show_count(len(done.deleted), 'stream')}"
    return JobOutcome([*faults, line], faults, {"segments": segments})


def _erase(spark: SparkSession, options: argparse.Namespace) -> JobOutcome:
    from ...coldstore.archive.relocation import Erasure
    from ...coldstore.erase.selection import RecordSelection
    from .erase import erase

    keys = frozenset(key.encode() for key in options.key)
    namespace, _, stream = options.prefix.partition("/")
    hot = None
    if options.metadata is not None:  # before the archive is listed: see segments_on_bookies
        hot = asyncio.run(_segments_on_bookies(options.metadata, namespace, stream))
    done = erase(
        spark,
        options.cold,
        options.prefix,
        RecordSelection(keys, options.from_ms, options.before_ms),
        Erasure(options.by, options.reason),
        grace_ms=options.grace_minutes * 60_000,
        hot=hot,
        tasks=options.tasks,
    )
    faults = [f"{name}: {text}" for name, text in sorted(done.faults.items())]
    line = (
        f"erased {show_count(done.records, 'record')} of {show_count(done.segments, 'segment')}, "
        f"deleted {show_count(done.deleted, 'file')}"
    )
    remaining, end = _remaining(namespace, hot)
    counts = {"segments": done.segments, "records": done.records}
    return JobOutcome([*faults, *remaining, line, end], faults, counts, remaining)


def _remaining(namespace: str, hot: Mapping[str, HotSegments] | None) -> tuple[list[str], str]:
    """Return what an erasure did not reach: lines for streams, and one for the whole."""
    if hot is None:
        return [], "copies on bookies were not examined, and are not erased"
    lines = [
        f"{namespace}/{name}: bookies hold {show_count(len(one.lssns), 'segment')} "
        f"({_spans(one.lssns)}), from which nothing was erased"
        for name, one in sorted(hot.items())
    ]
    if not lines:
        return [], "no bookie holds copies: the erasure is complete"
    return lines, (
        "the erasure is INCOMPLETE: repeat it when these segments are archived and their ledgers "
        "are deleted"
    )


async def _require_relocations(metadata: str, what: str) -> None:
    async with Client(metadata, moves_data=False) as client:
        await require_relocations(client.store, what)


async def _segments_on_bookies(
    metadata: str, namespace: str, stream: str
) -> dict[str, HotSegments]:
    async with Client(metadata, namespace=namespace, moves_data=False) as client:
        return await segments_on_bookies(client.namespace(), stream)


def _spans(lssns: Sequence[int]) -> str:
    """Return numbers as text, such as 1-4, 7."""
    spans = half_open_ranges(lssns)
    return ", ".join(
        str(first) if end == first + 1 else f"{first}-{end - 1}" for first, end in spans
    )


def _source_and_target(options: argparse.Namespace) -> "tuple[ArchivedSource, AppendTarget]":
    from .incremental import AppendTarget, ArchivedSource

    namespace, _, stream = options.source.partition("/")
    source = ArchivedSource(options.cold, namespace, stream, options.starting)
    target = (options.metadata, options.namespace, options.region, options.checkpoint)
    return source, AppendTarget(*target)


def _replay(spark: SparkSession, options: argparse.Namespace) -> JobOutcome:
    from .replay import ReplayJob, replay

    job = ReplayJob(*_source_and_target(options), options.target, not options.new_txids)
    records = replay(spark, job)
    target = f"{options.namespace}/{options.target}"
    line = f"replayed {show_count(records, 'record')} of {options.source} into {target}"
    return JobOutcome([line], [], {"records": records})


def _split(spark: SparkSession, options: argparse.Namespace) -> JobOutcome:
    from .split import SplitJob, split

    records = split(spark, SplitJob(*_source_and_target(options), options.stream, options.key))
    line = f"split {show_count(records, 'record')} of {options.source} by {options.stream}"
    return JobOutcome([line], [], {"records": records})


def _profile(spark: SparkSession, options: argparse.Namespace) -> JobOutcome:
    from .profile import ProfileJob, profile

    job = ProfileJob(options.cold, options.namespace, options.streams, options.table, options.page)
    hours = profile(spark, job)
    records = sum(hour.records for hour in hours)
    streams = show_count(len({hour.stream for hour in hours}), "stream")
    line = f"profiled {streams}, {show_count(records, 'record')} in {options.table}"
    return JobOutcome([line], [], {"records": records})


async def _stored_schemas(metadata: str | None, namespace: str, stream: str) -> SchemaHistory:
    if metadata is None:
        return SchemaHistory()
    async with Client(metadata, namespace=namespace) as client:
        return await client.namespace().schemas.read(stream)


def _convert(spark: SparkSession, options: argparse.Namespace) -> JobOutcome:
    from .convert import ConvertJob, convert

    namespace, _, stream = options.source.partition("/")
    schemas = asyncio.run(_stored_schemas(options.metadata, namespace, stream))
    job = ConvertJob(
        options.cold, namespace, stream, options.table, options.columns, options.function,
        schemas, options.date,
    )  # fmt: skip
    done = convert(spark, job)
    lines = [f"converted {show_count(done.rows, 'record')} into {options.table}"]
    if done.undecoded:
        lines.append(
            f"{show_count(done.undecoded, 'record')} could not be decoded: see column decode_error"
        )
    return JobOutcome(lines, [], {"records": done.rows, "undecoded": done.undecoded})


_JOBS: dict[str, Job] = {
    "archive": _archive,
    "verify": _verify,
    "replay": _replay,
    "split": _split,
    "copy": _copy,
    "compact": _compact,
    "retain": _retain,
    "erase": _erase,
    "profile": _profile,
    "convert": _convert,
}


def _root_cause(text: str) -> str:
    """Return the message of a RhumblineError inside Spark's message, or else all of ``text``."""
    own_errors = re.findall(r"^rhumbline\.\S+Error: (.*)$", text, re.MULTILINE)
    return str(own_errors[-1]) if own_errors else text


def perform(given: list[str]) -> JobOutcome:
    """Run a job. Raises RhumblineError, also for errors of Spark."""
    options = _parser().parse_args(given)
    if options.job in _WRITES_RELOCATIONS and options.metadata is not None:
        asyncio.run(_require_relocations(options.metadata, _WRITES_RELOCATIONS[options.job]))
    spark = open_session(f"rhumbline {options.job}", master=options.master)
    os.environ.update(s3_environment(spark))  # for the driver, as for the executors
    try:
        return _JOBS[options.job](spark, options)
    except PySparkException as error:
        raise RhumblineError(_root_cause(str(error))) from error
    finally:
        spark.stop()


def main(given: list[str]) -> int:
    """Run a job and return the exit code. An error is printed to stderr in one line."""
    try:
        outcome = perform(given)
    except RhumblineError as error:
        print(f"rhumbline: {error}", file=sys.stderr)
        return 1
    print("\n".join(outcome.lines))
    if outcome.faults:
        return 1
    return EXIT_INCOMPLETE if outcome.remaining else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
