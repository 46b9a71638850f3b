"""An Apache Pulsar broker for tests, and its Python client, which only this module imports."""

import json
import subprocess
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pulsar

from rhumbline.chaos.lab.ports import free_port
from rhumbline.tests.support.servers import installs
from rhumbline.tests.support.servers.metadata_servers import Server

_SOURCES = Path(__file__).parents[2] / "interop" / "pulsar"
_OPENED = (
    "java.base/java.io", "java.base/java.lang", "java.base/java.util", "java.base/sun.net",
    "java.base/jdk.internal.platform", "java.management/sun.management",
    "jdk.management/com.sun.management.internal",
)  # fmt: skip
"""Packages of the JDK into which the broker looks, as its own start script opens them."""
_MEMORY = ("-Xmx400m", "-XX:MaxDirectMemorySize=400m")
_JVM = ("java", *_MEMORY, "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
_CLUSTER = "lab"
_SETUP_S_MAX = 120
_CALL_S_MAX = 30


def pulsar_jars() -> Path:
    """Return the directory with the jars of the broker, in the version of pom.xml."""
    return installs.maven_jars(_SOURCES)


class PulsarBroker(Server):
    """A broker that keeps its ledgers on the bookies which ``zookeeper`` (host:port) lists.

    A ledger has three copies, of which two acknowledge, and at most ``ledger_entries`` entries.
    The broker drops messages that a producer sends again, and caches none.
    """

    name = "pulsar-broker"

    def __init__(self, zookeeper: str, ledger_entries: int) -> None:
        self._jars = pulsar_jars()
        super().__init__()
        self._zookeeper = zookeeper
        self._ledger_entries = ledger_entries
        self._web_port = free_port()

    def set_up(self) -> None:
        """Write the broker's own metadata beside that of the bookies, which exists already."""
        command = [
            *self._java("org.apache.pulsar.PulsarClusterMetadataSetup"),
            "--cluster", _CLUSTER,
            "--metadata-store", f"zk:{self._zookeeper}",
            "--configuration-metadata-store", f"zk:{self._zookeeper}",
            "--web-service-url", f"http://127.0.0.1:{self._web_port}",
            "--broker-service-url", self.url,
            "--existing-bk-metadata-service-uri", f"zk+hierarchical://{self._zookeeper}/ledgers",
        ]  # fmt: skip
        done = subprocess.run(command, capture_output=True, text=True, timeout=_SETUP_S_MAX)
        assert done.returncode == 0, done.stdout + done.stderr

    @property
    def url(self) -> str:
        """The address for clients."""
        return f"pulsar://{self.address}"

    def command_line(self) -> list[str]:
        """See Server."""
        conf = self.directory / "broker.conf"
        conf.write_text(
            f"metadataStoreUrl=zk:{self._zookeeper}\n"
            f"configurationMetadataStoreUrl=zk:{self._zookeeper}\n"
            f"bookkeeperMetadataServiceUri=zk+hierarchical://{self._zookeeper}/ledgers\n"
            "metadataStoreSessionTimeoutMillis=5000\n"
            f"clusterName={_CLUSTER}\n"
            f"brokerServicePort={self.port}\n"
            f"webServicePort={self._web_port}\n"
            "bindAddress=127.0.0.1\n"
            "advertisedAddress=127.0.0.1\n"
            "managedLedgerDefaultEnsembleSize=3\n"
            "managedLedgerDefaultWriteQuorum=3\n"
            "managedLedgerDefaultAckQuorum=2\n"
            f"managedLedgerMaxEntriesPerLedger={self._ledger_entries}\n"
            "managedLedgerMinLedgerRolloverTimeMinutes=0\n"
            "managedLedgerMaxLedgerRolloverTimeMinutes=1\n"
            "managedLedgerCacheSizeMB=0\n"
            "brokerDeduplicationEnabled=true\n"
            "brokerDeleteInactiveTopicsEnabled=false\n"
            "functionsWorkerEnabled=false\n"
            "loadBalancerEnabled=false\n"
            "defaultNumberOfNamespaceBundles=1\n"
            "numIOThreads=2\n"
            "numHttpServerThreads=4\n"
        )
        return [*self._java("org.apache.pulsar.PulsarBrokerStarter"), "-c", str(conf)]

    def _java(self, main: str) -> list[str]:
        opened = (f"--add-opens={package}=ALL-UNNAMED" for package in _OPENED)
        return [*_JVM, *opened, "-cp", f"{self._jars}/*", main]

    def is_ready(self) -> bool:
        """See Server."""
        try:
            self._call("GET", "brokers/health")
        except (OSError, ValueError):
            return False
        return True

    # --- administration ---------------------------------------------------------------------------

    def create_namespace(self, tenant: str, namespace: str) -> None:
        """Create a tenant with one namespace."""
        self._call("PUT", f"tenants/{tenant}", {"allowedClusters": [_CLUSTER]})
        body = {"replication_clusters": [_CLUSTER]}
        self._call("PUT", f"namespaces/{tenant}/{namespace}", body)

    def ledgers(self, topic: str) -> list[int]:
        """Return the ids of the ledgers of ``tenant/namespace/topic``, in order."""
        found = self._call("GET", f"persistent/{topic}/internalStats")
        return [int(ledger["ledgerId"]) for ledger in found["ledgers"]]

    def delete_topic(self, topic: str) -> None:
        """Delete ``tenant/namespace/topic`` with its ledgers."""
        self._call("DELETE", f"persistent/{topic}?force=true")

    def _call(self, method: str, path: str, body: dict[str, Any] | None = None) -> Any:  # noqa: ANN401 - JSON
        request = urllib.request.Request(
            f"http://127.0.0.1:{self._web_port}/admin/v2/{path}",
            method=method,
            data=None if body is None else json.dumps(body).encode(),
            headers={"Content-Type": "application/json"},
        )
        with urllib.request.urlopen(request, timeout=_CALL_S_MAX) as answer:
            text = answer.read()
        return json.loads(text) if text.startswith((b"{", b"[")) else text


class PulsarTopic:
    """A producer of numbered messages and a consumer of one topic, by Pulsar's own client."""

    def __init__(self, client: pulsar.Client, topic: str) -> None:
        name = f"persistent://{topic}"
        self._consumer = client.subscribe(name, "reader")
        self._auditor = client.subscribe(name, "auditor")
        self._producer = client.create_producer(
            name,
            producer_name="writer",
            send_timeout_millis=0,  # no limit: messages are sent again until the broker has them
            batching_enabled=False,
            block_if_queue_full=True,
            max_pending_messages=100,
        )
        self.acknowledged = 0
        """Number of messages that the broker has acknowledged."""

    def send(self, number: int) -> None:
        """Send a message without waiting for its acknowledgement."""
        self._producer.send_async(str(number).encode(), self._on_sent)

    def _on_sent(self, result: pulsar.Result, _: pulsar.MessageId) -> None:
        if result == pulsar.Result.Ok:
            self.acknowledged += 1

    def flush(self) -> None:
        """Wait until all messages that were sent are acknowledged."""
        self._producer.flush()

    def receive(self, count: int, timeout_s: float) -> list[int]:
        """Return the numbers as they arrive until ``count`` different ones did.

        A number appears again if the broker died before it stored the acknowledgement. Raises
        pulsar.Timeout if none arrives within ``timeout_s`` seconds.
        """
        found: list[int] = []
        missing = count
        seen: set[int] = set()
        while missing:
            message = self._consumer.receive(int(timeout_s * 1000))
            self._consumer.acknowledge(message)
            number = int(message.data())
            found.append(number)
            missing -= number not in seen
            seen.add(number)
        return found

    def stored(self, quiet_s: float) -> list[int]:
        """Return the numbers of all messages in the topic, by a subscription of its own.

        It ends when none arrives within ``quiet_s`` seconds; call it once.
        """
        found: list[int] = []
        while True:
            try:
                message = self._auditor.receive(int(quiet_s * 1000))
            except pulsar.Timeout:
                return found
            self._auditor.acknowledge(message)
            found.append(int(message.data()))


@contextmanager
def pulsar_topic(broker: PulsarBroker, topic: str) -> Iterator[PulsarTopic]:
    """Use ``tenant/namespace/topic`` within a block."""
    client = pulsar.Client(
        broker.url,
        operation_timeout_seconds=120,
        logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Error),
    )
    try:
        yield PulsarTopic(client, topic)
    finally:
        client.close()
