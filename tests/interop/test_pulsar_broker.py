"""An Apache Pulsar broker that stores its messages on Rhumbline's bookies."""

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from rhumbline.client.connect import Client
from rhumbline.core.protocol.errors import NoSuchLedgerError, UnavailableError
from rhumbline.tests.support.processes.bookies_on_zookeeper import BookiesOnZooKeeper
from rhumbline.tests.support.processes.pulsar_broker import PulsarBroker, pulsar_jars, pulsar_topic
from rhumbline.tests.support.servers.metadata_servers import started

pytestmark = [
    pytest.mark.needs_server("apache-bookkeeper"),
    pytest.mark.timeout(900),
    pytest.mark.long,
]

REGIONS = ("oslo", "bonn", "rome", "oslo")
MESSAGES = 6_000
LEDGER_ENTRIES = 1_000
RECEIVE_S_MAX = 60.0
QUIET_S = 5.0


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BookiesOnZooKeeper]:
    started(pulsar_jars)
    with BookiesOnZooKeeper(tmp_path_factory.mktemp("bookies"), REGIONS) as made:
        yield made


@pytest.fixture(scope="module")
def broker(cluster: BookiesOnZooKeeper) -> Iterator[PulsarBroker]:
    made = PulsarBroker(cluster.zookeeper.address, LEDGER_ENTRIES)
    try:
        made.set_up()
        made.start()
        made.create_namespace("shop", "orders")
        yield made
    finally:
        made.remove()


def start_again(broker: PulsarBroker) -> None:
    """Start a killed broker as its supervisor does: on a busy machine it may exit at first."""
    for _ in range(2):
        try:
            broker.start()
        except UnavailableError as error:
            print(error)
        else:
            return
    broker.start()


def test_messages_survive_a_killed_bookie_and_a_killed_broker(
    cluster: BookiesOnZooKeeper, broker: PulsarBroker
) -> None:
    """Ledgers roll over meanwhile; the bookie dies at a third, the broker at two thirds."""
    name = "shop/orders/placed"
    with ThreadPoolExecutor(1) as pool, pulsar_topic(broker, name) as topic:
        begun = time.monotonic()
        reading = pool.submit(topic.receive, MESSAGES, RECEIVE_S_MAX)
        for number in range(MESSAGES):
            if number == MESSAGES // 3:
                cluster.bookies[0].kill()
            if number == MESSAGES * 2 // 3:
                broker.kill()
                start_again(broker)
            topic.send(number)
        topic.flush()
        received = reading.result(RECEIVE_S_MAX)
        assert topic.acknowledged == MESSAGES
        took_s = time.monotonic() - begun
        ledgers = len(broker.ledgers(name))
        stored = topic.stored(QUIET_S)
        out, kept = set(received), set(stored)
        print(
            f"{MESSAGES} messages in and {len(out)} out in {took_s:.1f} s, {ledgers} ledgers, "
            f"{MESSAGES - len(kept)} lost, {len(stored) - len(kept)} stored twice, "
            f"{len(received) - len(out)} delivered again after the broker's death"
        )
        assert stored == list(range(MESSAGES))
        assert out == kept
    cluster.bookies[0].start()


def test_a_deleted_topic_leaves_no_ledger(
    cluster: BookiesOnZooKeeper, broker: PulsarBroker
) -> None:
    name = "shop/orders/cancelled"
    count = 2 * LEDGER_ENTRIES + 10
    with pulsar_topic(broker, name) as topic:
        for number in range(count):
            topic.send(number)
        topic.flush()
        ledgers = broker.ledgers(name)
        assert topic.receive(count, RECEIVE_S_MAX) == list(range(count))
    assert len(ledgers) >= 3

    async def existing(client: Client) -> list[int]:
        found = []
        for ledger in ledgers:
            try:
                await client.ledger_store.read(ledger)
            except NoSuchLedgerError:
                continue
            found.append(ledger)
        return found

    broker.delete_topic(name)
    deadline = time.monotonic() + RECEIVE_S_MAX
    while left := cluster.run(existing):
        assert time.monotonic() < deadline, f"ledgers {left} remain"
        time.sleep(0.5)
