"""Apache BookKeeper's shell and autorecovery on a cluster of Rhumbline's bookies."""

import re
import time
from collections.abc import Iterator

import pytest

from rhumbline.chaos.managed_process import ManagedProcess, rhumbline_command
from rhumbline.client.connect import Client
from rhumbline.core.protocol.ledger_metadata import LedgerMetadata
from rhumbline.tests.support.processes.bookies_on_zookeeper import BookiesOnZooKeeper
from rhumbline.tests.support.servers.apache import (
    AutoRecovery,
    bookkeeper_jars,
    run_java,
    run_shell,
)
from rhumbline.tests.support.servers.metadata_servers import started

pytestmark = [
    pytest.mark.needs_server("apache-bookkeeper"),
    pytest.mark.timeout(600),
    pytest.mark.long,
]

REGIONS = ("oslo", "bonn", "rome", "oslo", "bonn", "rome")
LEDGERS = 6
ENTRIES = 300
REPAIR_S_MAX = 120


@pytest.fixture
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BookiesOnZooKeeper]:
    started(bookkeeper_jars)
    with BookiesOnZooKeeper(tmp_path_factory.mktemp("bookies"), REGIONS) as made:
        yield made


def test_the_shell_shows_and_uses_the_cluster(cluster: BookiesOnZooKeeper) -> None:
    zookeeper = cluster.zookeeper.address
    listed = run_shell(zookeeper, "listbookies", "-rw")
    assert {f"b{n}" for n in range(len(REGIONS))} <= set(re.findall(r"\bb\d(?=@)", listed))
    made = run_java(zookeeper, "v3", f"make:{ENTRIES}")[f"make:{ENTRIES}"]
    ledger = made.removeprefix("ledger=")
    assert ledger in re.findall(r"\d+", run_shell(zookeeper, "listledgers"))
    metadata = run_shell(zookeeper, "ledgermetadata", "-ledgerid", ledger)
    assert "state=CLOSED" in metadata
    written = run_shell(
        zookeeper, "simpletest", "-ensemble", "3", "-writeQuorum", "3", "-ackQuorum", "2",
        "-numEntries", "100",
    )  # fmt: skip
    assert "100 entries written" in written
    run_shell(zookeeper, "deleteledger", "-ledgerid", ledger, "-force")
    assert ledger not in re.findall(r"^.*\b(\d+)$", run_shell(zookeeper, "listledgers"), re.M)


def test_autorecovery_and_repair_heal_a_lost_bookie_together(cluster: BookiesOnZooKeeper) -> None:
    """Both work on the same ledgers; whoever is first, every ledger is whole and readable."""
    zookeeper = cluster.zookeeper.address
    steps = [f"make:{ENTRIES + n}" for n in range(LEDGERS)]
    ledgers = [
        int(made.removeprefix("ledger=")) for made in run_java(zookeeper, "v3", *steps).values()
    ]

    async def ensembles(client: Client) -> list[LedgerMetadata]:
        return [(await client.ledger_store.read(ledger))[0] for ledger in ledgers]

    before = cluster.run(ensembles)
    lost = next(iter(before[0].bookies()))
    hit = [m.ledger_id for m in before if lost in m.bookies()]
    cluster.bookies[int(lost[1])].kill()
    log = cluster.bookies[0].directory.parent / "repair.log"
    repair = ManagedProcess(
        "repair",
        rhumbline_command(
            "repair", "run", "-u", cluster.uri, "--region", REGIONS[0], "--status-port", "0"
        ),
        log,
        ready="repairing",
    )
    recovery = AutoRecovery(zookeeper)
    try:
        recovery.start()
        repair.start()
        begun = time.monotonic()
        while any(lost in metadata.bookies() for metadata in cluster.run(ensembles)):
            assert time.monotonic() - begun < REPAIR_S_MAX, recovery.output[-4000:]
            time.sleep(1)
        print(f"{len(hit)} ledgers healed in {time.monotonic() - begun:.1f} s")
    finally:
        recovery.remove()
        repair.kill()
    reads = [f"read:{ledger}" for ledger in ledgers]
    printed = run_java(zookeeper, "v3", *reads)
    expected = [f"entries={ENTRIES + n} closed=true" for n in range(LEDGERS)]
    assert [printed[step] for step in reads] == expected
