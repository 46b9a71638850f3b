"""Apache BookKeeper and DistributedLog for tests: bookies, tools, and clients in small programs."""

import socket
import subprocess
import tempfile
from pathlib import Path

from rhumbline.chaos.lab.ports import free_port
from rhumbline.chaos.managed_process import ManagedProcess
from rhumbline.tests.support.servers import installs
from rhumbline.tests.support.servers.metadata_servers import Server

_JAVA = Path(__file__).parents[2] / "interop" / "java"
_DISTRIBUTEDLOG = Path(__file__).parents[2] / "interop" / "distributedlog"
_JVM = ("java", "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
_MEMORY = ("-XX:MaxDirectMemorySize=256m",)


_TLS = """\
tlsProviderFactoryClass=org.apache.bookkeeper.tls.TLSContextFactory
tlsProvider=JDK
tlsClientAuthentication=true
tlsKeyStoreType=PEM
tlsKeyStore={directory}/server.key
tlsCertificatePath={directory}/server.pem
tlsTrustStoreType=PEM
tlsTrustStore={directory}/ca.pem
"""


def bookkeeper_jars() -> Path:
    """Return the directory with the jars of bookkeeper-server, in the version of pom.xml."""
    return installs.maven_jars(_JAVA)


def distributedlog_classpath() -> str:
    """Return the class path of the program StreamOfNumbers, in the version of its pom.xml."""
    jars = installs.maven_jars(_DISTRIBUTEDLOG)
    return f"{installs.java_classes(_DISTRIBUTEDLOG / 'StreamOfNumbers.java', jars)}:{jars}/*"


def run_java(zookeeper: str, mode: str, *steps: str, tls: Path | None = None) -> dict[str, str]:
    """Run steps with Apache's client in wire mode ``v2`` or ``v3``; return the output by step.

    ``zookeeper`` is host:port. ``tls`` is a directory with certificates, with which it uses
    START_TLS. Fails the test if a step fails.
    """
    options = () if tls is None else (f"-Dtls={tls}",)
    jars = bookkeeper_jars()
    classes = installs.java_classes(_JAVA / "Interop.java", jars)
    command = [
        *_JVM, *_MEMORY, *options, "-cp", f"{classes}:{jars}/*", "Interop",
        f"zk+hierarchical://{zookeeper}/ledgers", mode, *steps,
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, timeout=150)
    lines = done.stdout.splitlines()
    outputs = dict(line.split(" ", 2)[1:] for line in lines if line.startswith("ok "))
    assert done.returncode == 0, f"Apache's client, {mode}:\n{done.stdout[-400000:]}"
    assert list(outputs) == list(dict.fromkeys(steps))
    return outputs


def run_shell(zookeeper: str, *arguments: str) -> str:
    """Run a command of BookKeeper's shell, and return what it prints or logs."""
    main = "org.apache.bookkeeper.bookie.BookieShell"
    with tempfile.NamedTemporaryFile("w", suffix=".conf") as conf:
        conf.write(f"metadataServiceUri=zk+hierarchical://{zookeeper}/ledgers\n")
        conf.flush()
        jars = f"{bookkeeper_jars()}/*"
        command = [*_JVM, *_MEMORY, "-cp", jars, main, "-conf", conf.name, *arguments]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, f"{arguments}: {done.stdout[-4000:]} {done.stderr[-4000:]}"
    return done.stdout + done.stderr


def initialise(zookeeper: str) -> None:
    """Initialise an empty ZooKeeper as the metadata store of a new BookKeeper cluster."""
    run_shell(zookeeper, "initnewcluster")


class AutoRecovery(Server):
    """BookKeeper's autorecovery: an auditor and a replication worker."""

    name = "autorecovery"

    def __init__(self, zookeeper: str) -> None:
        self._jars = bookkeeper_jars()
        super().__init__()
        self._zookeeper = zookeeper

    def command_line(self) -> list[str]:
        """See Server."""
        conf = self.directory / "autorecovery.conf"
        conf.write_text(
            f"bookiePort={self.port}\n"
            "advertisedAddress=127.0.0.1\n"
            "allowLoopback=true\n"
            f"metadataServiceUri=zk+hierarchical://{self._zookeeper}/ledgers\n"
            "httpServerEnabled=false\n"
            "lostBookieRecoveryDelay=0\n"
            "openLedgerRereplicationGracePeriod=1000\n"
        )
        main = "org.apache.bookkeeper.replication.AutoRecoveryMain"
        return [*_JVM, *_MEMORY, "-cp", f"{self._jars}/*", main, "--conf", str(conf)]

    def is_ready(self) -> bool:
        """See Server."""
        return self.is_running


class StreamOfNumbers:
    """Runs the program that writes and reads streams with Apache DistributedLog's client."""

    def __init__(self, zookeeper: str) -> None:
        """``zookeeper`` is host:port."""
        main = ("-cp", distributedlog_classpath(), "StreamOfNumbers", zookeeper)
        self._command = [*_JVM, *_MEMORY, *main]

    def run(self, *arguments: str) -> str:
        """Run it to its end and return what it prints. Raises CalledProcessError."""
        command = [*self._command, *arguments]
        done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=300)
        return done.stdout

    def writer(
        self, stream: str, first: int, count: int, segment_bytes: int, log: Path
    ) -> ManagedProcess:
        """Return a process that writes ``count`` numbers from ``first`` on, not started yet."""
        arguments = ("write", stream, str(first), str(count), str(segment_bytes))
        return ManagedProcess("writer", [*self._command, *arguments], log, ready="acknowledged")


class ApacheBookie(Server):
    """An Apache bookie with default storage and a synced journal."""

    name = "apache-bookie"

    def __init__(self, zookeeper: str, tls: Path | None = None) -> None:
        """``tls`` is a directory with certificates, which the bookie then requires."""
        self._tls = tls
        self._jars = bookkeeper_jars()
        super().__init__()
        self.port = free_port()
        self._zookeeper = zookeeper

    def command_line(self) -> list[str]:
        """See Server."""
        conf = self.directory / "bookie.conf"
        conf.write_text(
            f"bookiePort={self.port}\n"
            "advertisedAddress=127.0.0.1\n"
            "listeningInterface=lo\n"
            "allowLoopback=true\n"
            f"metadataServiceUri=zk+hierarchical://{self._zookeeper}/ledgers\n"
            f"journalDirectories={self.directory}/journal\n"
            f"ledgerDirectories={self.directory}/ledgers\n"
            "httpServerEnabled=false\n"
            "autoRecoveryDaemonEnabled=false\n"
            "diskUsageThreshold=0.99\ndiskUsageWarnThreshold=0.98\ndiskUsageLwmThreshold=0.97\n"
            + ("" if self._tls is None else _TLS.format(directory=self._tls))
        )
        main = "org.apache.bookkeeper.server.Main"
        return [*_JVM, *_MEMORY, "-cp", f"{self._jars}/*", main, "--conf", str(conf)]

    def is_ready(self) -> bool:
        """See Server."""
        try:
            socket.create_connection(("127.0.0.1", self.port), timeout=1).close()
        except OSError:
            return False
        return True
