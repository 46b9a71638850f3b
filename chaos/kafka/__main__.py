"""``python -m rhumbline.chaos.kafka --seconds 120``: runs the workload and prints the anomalies."""

import argparse
import json
import shutil
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path

from .kafka_run import KafkaPlan, KafkaRun


def main() -> int:
    """Run as the command line says, print the outcome as JSON, and return 1 after an anomaly."""
    parser = argparse.ArgumentParser(prog="python -m rhumbline.chaos.kafka", description=__doc__)
    for name, value in asdict(KafkaPlan()).items():
        parser.add_argument(f"--{name.replace('_', '-')}", type=type(value), default=value)
    parser.add_argument("--folder", type=Path, help="keep the files of the run in this new folder")
    given = vars(parser.parse_args())
    kept = given.pop("folder")
    folder = kept or Path(tempfile.mkdtemp(prefix="rhumbline-kafka-"))
    outcome = KafkaRun(KafkaPlan(**given), folder).run()
    report = outcome.report
    if kept is None and report.is_clean:
        shutil.rmtree(folder)
    elif not report.is_clean:
        print(f"anomalies were found; the files of the run are in {folder}", file=sys.stderr)
    result = {
        "plan": given,
        "faults": outcome.faults,
        "operations": report.operations,
        "messages": report.messages,
        "polled": report.polled,
        "anomalies": {
            kind: {"count": len(found), "first": found[:5]}
            for kind, found in report.anomalies.items()
        },
        "is_clean": report.is_clean,
    }
    print(json.dumps(result, indent=2))
    return 0 if report.is_clean else 1


if __name__ == "__main__":
    sys.exit(main())
