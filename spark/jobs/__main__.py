"""The command line of the Spark jobs: ``python -m rhumbline.spark.jobs JOB ...``."""

import argparse
import re
import sys
from typing import NamedTuple

from pyspark.errors import PySparkException

from ...client.units import show_count
from ...core.protocol.errors import RhumblineError
from ..session import open_session


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="rhumbline.spark.jobs", description=__doc__)
    jobs = parser.add_subparsers(dest="job", required=True)

    def job(name: str, text: str) -> argparse.ArgumentParser:
        command = jobs.add_parser(name, help=text, description=text)
        command.add_argument("--cold", required=True, help="URI of the cold store")
        command.add_argument("--master", help="Spark's master, unless spark-submit sets it")
        return command

    archiving = job("archive", "copy completed segments to the cold store")
    archiving.add_argument("streams", nargs="*", help="streams to archive (default: all)")
    verifying = job("verify", "read every byte of an archive and check the chain of segments")
    verifying.add_argument("prefix", nargs="?", default="", help="NAMESPACE or NAMESPACE/STREAM")
    replaying = job("replay", "append archived records to a stream, exactly once")
    replaying.add_argument("source", help="NAMESPACE/STREAM in the archive")
    replaying.add_argument("target", help="stream to append to")
    replaying.add_argument(
        "--new-txids", action="store_true", help="assign new txids instead of keeping them"
    )
    replaying.add_argument(
        "--starting", default="earliest", help="first position, as in option startingOffsets"
    )
    replaying.add_argument(
        "--ending", default="latest", help="end position, as in option endingOffsets"
    )
    for command in (archiving, replaying):
        command.add_argument("--metadata", required=True, help="URI of the cluster")
        command.add_argument("--namespace", default="default", help="namespace of the streams")
        command.add_argument("--region", help="region of the executors")
    for command in (archiving, verifying):
        command.add_argument("--tasks", type=int, help="number of parallel tasks")
    return parser


def _root_cause(text: str) -> str:
    """Return the message of a RhumblineError inside Spark's message, or else all of ``text``."""
    own_errors = re.findall(r"^rhumbline\.\S+Error: (.*)$", text, re.MULTILINE)
    return str(own_errors[-1]) if own_errors else text


class JobOutcome(NamedTuple):
    """The result of a job."""

    lines: list[str]
    """The outcome for people."""
    faults: list[str]
    """Faults that the job found."""
    counts: dict[str, int]
    """The numbers of segments and records, as far as the job counts them."""


def perform(given: list[str]) -> JobOutcome:
    """Run a job. Raises RhumblineError, also for errors of Spark."""
    options = _parser().parse_args(given)
    spark = open_session(f"rhumbline {options.job}", master=options.master)
    try:
        if options.job == "archive":
            from .archive import ArchiveJob, archive

            job = ArchiveJob(options.metadata, options.namespace, options.region, options.cold)
            manifests = archive(spark, job, options.streams, tasks=options.tasks)
            records = sum(manifest.record_count for manifest in manifests)
            segments = show_count(len(manifests), "segment")
            line = f"archived {segments}, {show_count(records, 'record')}"
            return JobOutcome([line], [], {"segments": len(manifests), "records": records})
        if options.job == "verify":
            from .verify import verify

            found = verify(spark, options.cold, options.prefix, tasks=options.tasks)
            faults = [f"{name}: {text}" for name, texts in found.items() for text in texts]
            total = f"{show_count(len(found), 'segment')}, {show_count(len(faults), 'fault')}"
            return JobOutcome([*faults, total], faults, {"segments": len(found)})
        from .replay import ReplayJob, replay

        namespace, _, stream = options.source.partition("/")
        replay_job = ReplayJob(
            options.cold, namespace, stream, options.metadata, options.namespace,
            options.region, options.target, not options.new_txids, options.starting,
            options.ending,
        )  # fmt: skip
        replay(spark, replay_job)
        line = f"replayed {options.source} into {options.namespace}/{options.target}"
        return JobOutcome([line], [], {})
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
    return 1 if outcome.faults else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
