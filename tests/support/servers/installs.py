"""Real servers for tests: where each one comes from. They are kept outside of the repository.

RHUMBLINE_SERVERS names the directory (default: ~/.cache/rhumbline/servers). Nothing is installed on
the machine: jars come by Maven, binaries from the distribution's package or by `go install`.
"""

import contextlib
import fcntl
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

ZOOKEEPER = "3.9.5"
TOXIPROXY = "v2.12.0"
GRPCURL = "v1.9.3"

_ZOOKEEPER_POM = f"""\
<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>rhumbline.tests</groupId><artifactId>zookeeper-server</artifactId><version>1</version>
  <dependencies>
    <dependency>
      <groupId>org.apache.zookeeper</groupId><artifactId>zookeeper</artifactId>
      <version>{ZOOKEEPER}</version>
      <exclusions>
        <exclusion><groupId>ch.qos.logback</groupId><artifactId>*</artifactId></exclusion>
      </exclusions>
    </dependency>
    <dependency>
      <groupId>io.dropwizard.metrics</groupId><artifactId>metrics-core</artifactId>
      <version>4.2.37</version>
    </dependency>
    <dependency>
      <groupId>org.xerial.snappy</groupId><artifactId>snappy-java</artifactId>
      <version>1.1.10.8</version>
    </dependency>
    <dependency>
      <groupId>org.slf4j</groupId><artifactId>slf4j-simple</artifactId><version>2.0.17</version>
    </dependency>
  </dependencies>
</project>
"""


class NotInstalledError(Exception):
    """A server cannot be had here; the message says why."""


def zookeeper_jars() -> Path:
    """The directory with ZooKeeper's jars and what they need."""
    require("java", "mvn")
    return installed(f"zookeeper-{ZOOKEEPER}", _fetch_zookeeper)


def etcd_binary() -> Path:
    """The etcd server: the machine's own, or the distribution's package unpacked."""
    own = shutil.which("etcd")
    if own is not None:
        return Path(own)
    require("apt-get", "dpkg")
    return installed("etcd", _fetch_etcd) / "usr/bin/etcd"


def toxiproxy_binary() -> Path:
    """The proxy that breaks connections on command."""
    require("go")
    return installed(f"toxiproxy-{TOXIPROXY}", _fetch_toxiproxy) / "server"


def grpcurl_binary() -> Path:
    """A gRPC client that knows nothing of us but what a server's reflection says."""
    require("go")
    return installed(f"grpcurl-{GRPCURL}", _fetch_grpcurl) / "grpcurl"


def require(*programs: str) -> None:
    """Raises NotInstalledError if the machine lacks one of these programs."""
    for program in programs:
        if shutil.which(program) is None:
            raise NotInstalledError(f"there is no {program} on this machine")


def copy_dependencies(pom: str, into: Path) -> None:
    """Fetches the jars that a Maven project needs."""
    with tempfile.TemporaryDirectory() as work:
        Path(work, "pom.xml").write_text(pom)
        _run(
            "mvn", "-q", "-B", "dependency:copy-dependencies", f"-DoutputDirectory={into}", at=work
        )


def _fetch_zookeeper(into: Path) -> None:
    copy_dependencies(_ZOOKEEPER_POM, into)


def _fetch_etcd(into: Path) -> None:
    with tempfile.TemporaryDirectory() as work:
        try:
            _run("apt-get", "download", "-q", "etcd-server", at=work)
        except NotInstalledError:  # the list of packages may be missing or old
            _run("apt-get", "update", "-q", at=work)
            _run("apt-get", "download", "-q", "etcd-server", at=work)
        (package,) = Path(work).glob("etcd-server_*.deb")
        _run("dpkg", "-x", str(package), str(into), at=work)


def _fetch_toxiproxy(into: Path) -> None:
    go_install(f"github.com/Shopify/toxiproxy/v2/cmd/server@{TOXIPROXY}", into)


def _fetch_grpcurl(into: Path) -> None:
    go_install(f"github.com/fullstorydev/grpcurl/cmd/grpcurl@{GRPCURL}", into)


def go_install(module: str, into: Path) -> None:
    """Builds a Go program into the directory."""
    _run("go", "install", module, at=str(into), GOBIN=str(into))


def installed(name: str, fetch: Callable[[Path], None]) -> Path:
    """The directory ``name``, fetched once, whoever asks first."""
    root = Path(os.environ.get("RHUMBLINE_SERVERS", Path.home() / ".cache/rhumbline/servers"))
    root.mkdir(parents=True, exist_ok=True)
    place = root / name
    with _locked(root / f"{name}.lock"):
        if not place.exists():
            fresh = Path(tempfile.mkdtemp(dir=root))
            try:
                fetch(fresh)
                fresh.rename(place)
            finally:
                shutil.rmtree(fresh, ignore_errors=True)
    return place


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[None]:
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _run(*command: str, at: str, **environment: str) -> None:
    try:
        subprocess.run(
            command,
            cwd=at,
            env={**os.environ, **environment},
            check=True,
            timeout=300,
            capture_output=True,
            text=True,
        )
    except subprocess.CalledProcessError as error:
        lines = (error.stderr or error.stdout).strip().splitlines() or ["no output"]
        raise NotInstalledError(f"{' '.join(command[:3])} failed: {lines[-1]}") from error
    except subprocess.TimeoutExpired as error:
        raise NotInstalledError(f"{' '.join(command[:3])} took more than 5 minutes") from error
