"""The command line of the jobs: ``python -m rhumbline.spark.jobs JOB ...``; see ``submit.py``."""

import argparse
import re
import sys

from pyspark.errors import PySparkException

from ...core.protocol.errors import RhumblineError
from ..session import open_session


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="rhumbline.spark.jobs", description=__doc__)
    jobs = parser.add_subparsers(dest="job", required=True)

    def job(name: str, text: str) -> argparse.ArgumentParser:
        one = jobs.add_parser(name, help=text, description=text)
        one.add_argument("--cold", required=True, help="URI of the cold store")
        one.add_argument("--master", help="Spark's master, where spark-submit does not say it")
        return one

    archiving = job("archive", "copies completed segments to the cold store")
    archiving.add_argument("streams", nargs="*", help="default: all")
    verifying = job("verify", "reads every byte of an archive and walks the chain")
    verifying.add_argument("prefix", nargs="?", default="", help="NAMESPACE or NAMESPACE/STREAM")
    replaying = job("replay", "appends an archive's records to a stream, once")
    replaying.add_argument("source", help="NAMESPACE/STREAM in the archive")
    replaying.add_argument("target", help="stream to append to")
    replaying.add_argument("--new-txids", action="store_true", help="do not keep the txids")
    replaying.add_argument("--starting", default="earliest", help="as option startingOffsets")
    replaying.add_argument("--ending", default="latest", help="as option endingOffsets")
    for one in (archiving, replaying):
        one.add_argument("--metadata", required=True, help="URI of the cluster")
        one.add_argument("--namespace", default="default")
        one.add_argument("--region", help="of the executors")
    for one in (archiving, verifying):
        one.add_argument("--tasks", type=int, help="how many at once")
    return parser


def _cause(text: str) -> str:
    """What Spark wraps into many lines: the error of ours, if it is one."""
    ours = re.findall(r"^rhumbline\.\S+Error: (.*)$", text, re.MULTILINE)
    return str(ours[-1]) if ours else text


def main(given: list[str]) -> int:
    """Runs a job; returns the exit code. One line on stderr says what went wrong."""
    options = _parser().parse_args(given)
    spark = open_session(f"rhumbline {options.job}", master=options.master)
    try:
        if options.job == "archive":
            from .archive import ArchiveJob, archive

            place = ArchiveJob(options.metadata, options.namespace, options.region, options.cold)
            done = archive(spark, place, options.streams, tasks=options.tasks)
            records = sum(one.record_count for one in done)
            print(f"archived {len(done)} segments, {records:,} records")
        elif options.job == "verify":
            from .verify import verify

            found = verify(spark, options.cold, options.prefix, tasks=options.tasks)
            faults = [f"{name}: {text}" for name, texts in found.items() for text in texts]
            print("\n".join([*faults, f"{len(found)} segments, {len(faults)} faults"]))
            return 1 if faults else 0
        else:
            from .replay import ReplayJob, replay

            namespace, _, stream = options.source.partition("/")
            plan = ReplayJob(
                options.cold, namespace, stream, options.metadata, options.namespace,
                options.region, options.target, not options.new_txids, options.starting,
                options.ending,
            )  # fmt: skip
            replay(spark, plan)
            print(f"replayed {options.source} into {options.namespace}/{options.target}")
        return 0
    except (RhumblineError, PySparkException) as error:
        print(f"rhumbline: {_cause(str(error))}", file=sys.stderr)
        return 1
    finally:
        spark.stop()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
