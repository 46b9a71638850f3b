"""Runs every test of the metadata stores and prints a table with a column for each store.

`python .ci/stores.py` (or `make stores`). The column `fdb` has results only if FoundationDB is
installed, RHUMBLINE_FDB_HOME names the folder of its programs, or RHUMBLINE_FDB_CLUSTER_FILE names
a cluster; the column `fdb model` is for the model of FoundationDB that the tests bring along.
"""

import os
import platform
import re
import sqlite3
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as ElementTree
from collections import defaultdict
from pathlib import Path

from rhumbline.tests.support.servers import fdb_servers, installs, store_locations
from rhumbline.tests.support.servers.metadata_servers import Etcd, ZooKeeper

MODEL = "fdb model"
STORES = ("memory", "sqlite", "zookeeper", "etcd", MODEL, "fdb")
SUITES = {
    "kit: checks": "contract.backends.test_metadata_stores",
    "kit: random programs": "contract.backends.test_store_model",
    "faults on the way": "contract.backends.test_store_network_faults",
    "faults of servers": "contract.backends.test_store_server_faults",
    "faults of servers, fdb": "contract.backends.test_fdb_faults",
    "faults of processes": "contract.backends.test_sqlite_processes",
    "TLS, passwords": "contract.backends.test_store_authentication",
    "TLS, fdb": "contract.backends.test_fdb_tls",
    "fences, migrations": "contract.backends.test_live_migrations",
    "3 regions": "integration.stores.test_stream_on_every_store",
    "store away": "integration.stores.test_metadata_outage",
    "stream migrated": "integration.stores.test_stream_across_migrations",
}
FAULTS = ("faults", "TLS", "store away", "stream migrated")
"""Prefixes of the suites whose tests are listed one by one."""

Counts = dict[str, int]
Table = dict[str, dict[str, Counts]]


def stores_of(test: str) -> list[str]:
    """Return the stores that a test uses, by its name with its parameters."""
    found = [store for store in ("memory", "sqlite", "zookeeper", "etcd") if store in test]
    if "real-servers" in test:
        found = ["sqlite", "zookeeper", "etcd"]
    if "fdb" in test or "foundationdb" in test:
        found.append(MODEL if "model" in test.partition("::")[2] else "fdb")
    return found


def run(report: Path) -> int:
    """Run the tests and return pytest's exit code; their output is passed on."""
    files = [f"tests/{module.replace('.', '/')}.py" for module in SUITES.values()]
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:randomly", f"--junitxml={report}"]
    return subprocess.run([*command, *files], check=False).returncode


def results(report: Path) -> tuple[Table, Table]:
    """Count outcomes by suite and store, and by single test (of faults) and store."""
    by_suite: Table = defaultdict(lambda: defaultdict(lambda: defaultdict(int)))
    by_test: Table = defaultdict(lambda: defaultdict(lambda: defaultdict(int)))
    for case in ElementTree.parse(report).iter("testcase"):
        module = case.get("classname", "").removeprefix("tests.")
        suite = next(name for name, wanted in SUITES.items() if module.endswith(wanted))
        name = case.get("name", "")
        outcome = "passed"
        for kind in ("skipped", "failure", "error"):
            if case.find(kind) is not None:
                outcome = "skipped" if kind == "skipped" else "failed"
        stores = stores_of(f"{suite}::{name}") or (["sqlite"] if "processes" in suite else ["etcd"])
        for store in stores:
            by_suite[suite][store][outcome] += 1
            if suite.startswith(FAULTS):
                by_test[words(name)][store][outcome] += 1
    return by_suite, by_test


def words(name: str) -> str:
    """Return a test's name as a sentence, without its parameters."""
    return re.sub(r"\[.*", "", name).removeprefix("test_").replace("_", " ")


def cell(counts: Counts | None) -> str:
    """Return the text of a table cell: passed tests, then skipped and failed ones."""
    if not counts:
        return "-"
    parts = [str(counts.get("passed", 0))] if counts.get("passed") else []
    parts += [f"{counts[kind]} {kind}" for kind in ("skipped", "failed") if counts.get(kind)]
    return ", ".join(parts)


def show(title: str, table: Table) -> None:
    """Print a table with a column for each store."""
    width = max(map(len, [title, *table]))
    print(f"\n{title:{width}}  " + "  ".join(f"{store:>11}" for store in STORES))
    for row, by_store in table.items():
        cells = "  ".join(f"{cell(by_store.get(store)):>11}" for store in STORES)
        print(f"{row:{width}}  {cells}")


def versions() -> dict[str, str]:
    """Return the version of each store on this machine, or the reason why it is skipped."""
    found = {
        "memory": f"Python {platform.python_version()}",
        "sqlite": f"SQLite {sqlite3.sqlite_version}",
        MODEL: "tests/support/fakes/fdb_model.py: a model of FoundationDB's transactions",
    }
    for name, kind in (("zookeeper", ZooKeeper), ("etcd", Etcd)):
        try:
            server = kind()
        except installs.NotInstalledError as reason:
            found[name] = f"skipped: {reason}"
            continue
        server.start()
        found[name] = f"{name} {server.version()}"
        server.remove()
    try:
        found["fdb"] = f"FoundationDB {fdb_servers.version_of(fdb_servers.find_programs())}"
    except installs.NotInstalledError as reason:
        file = os.environ.get(store_locations.FDB_CLUSTER_FILE)
        found["fdb"] = f"FoundationDB, cluster file {file}" if file else f"skipped: {reason}"
    return found


def main() -> int:
    """Run the tests, print the tables, and return pytest's exit code."""
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder, "report.xml")
        code = run(report)
        by_suite, by_test = results(report)
    found = versions()
    print("\nstores")
    for store in STORES:
        print(f"  {store:10} {found[store]}")
    show("passed", by_suite)
    show("injected faults", by_test)
    print(f"\n{time.monotonic() - began:.0f} s")
    return code


if __name__ == "__main__":
    sys.exit(main())
