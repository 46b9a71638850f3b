"""Fetches the programs of real servers for tests into a directory outside the repository.

RHUMBLINE_SERVERS names the directory (default: ~/.cache/rhumbline/servers). Jars come from Maven,
binaries from the distribution's package or from `go install`. Nothing is installed system-wide but
the tools of containers, and those only in CI.
"""

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from rhumbline.tests.support.ci import in_ci
from rhumbline.tests.support.locked_file import locked_file

ZOOKEEPER = "3.9.5"
TOXIPROXY = "v2.12.0"
AXE = "4.14.1"
GRPCURL = "v1.9.3"
HELM = "v3.17.3"
SSLYZE = "6.3.1"

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
    """A server is not available on this machine; the message says why."""


def zookeeper_jars() -> Path:
    """Return the directory with ZooKeeper's jars and their dependencies."""
    require("java", "mvn")
    return installed(f"zookeeper-{ZOOKEEPER}", _fetch_zookeeper)


def etcd_binary() -> Path:
    """Return the etcd server: the installed one, or that of the distribution's package."""
    system_binary = shutil.which("etcd")
    if system_binary is not None:
        return Path(system_binary)
    require("apt-get", "dpkg")
    return installed("etcd", _fetch_etcd) / "usr/bin/etcd"


def prometheus_binary() -> Path:
    """Return the Prometheus server: the installed one, or that of the distribution's package."""
    return _of_prometheus("prometheus")


def promtool_binary() -> Path:
    """Return promtool, which checks metrics and tests the rules of Prometheus."""
    return _of_prometheus("promtool")


def toxiproxy_binary() -> Path:
    """Return the Toxiproxy server, which injects faults into connections."""
    require("go")
    return installed(f"toxiproxy-{TOXIPROXY}", _fetch_toxiproxy) / "server"


def grpcurl_binary() -> Path:
    """Return grpcurl, a gRPC client that knows a server only by its reflection service."""
    require("go")
    return installed(f"grpcurl-{GRPCURL}", _fetch_grpcurl) / "grpcurl"


def axe_script() -> str:
    """Return axe, which finds what keeps people with disabilities from using a page."""
    require("npm", "tar")
    return (installed(f"axe-{AXE}", _fetch_axe) / "package/axe.min.js").read_text()


def chromium_folder() -> Path:
    """Return the folder with Chromium from the distribution's packages, and their libraries."""
    require("apt-get", "dpkg")
    return installed("chromium", _fetch_chromium)


def helm_binary() -> Path:
    """Return helm, which renders charts of Kubernetes."""
    require("go")
    return installed(f"helm-{HELM}", _fetch_helm) / "helm"


def sslyze_python() -> Path:
    """Return the Python of an environment with sslyze, which scans TLS servers.

    It is a tool of tests in an environment of its own: its licence is the AGPL, and it pins other
    versions of packages that the product uses.
    """
    return installed(f"sslyze-{SSLYZE}", _fetch_sslyze) / "bin/python"


def require(*programs: str) -> None:
    """Raise NotInstalledError if one of these programs is not installed."""
    for program in programs:
        if shutil.which(program) is None:
            raise NotInstalledError(f"{program} is not installed")


def require_packages(*names: str) -> None:
    """Raise NotInstalledError if a program is missing that its package must install system-wide.

    Programs and packages have the same names. In CI, root installs what is missing.
    """
    missing = [name for name in names if shutil.which(name) is None]
    if not missing:
        return
    if not in_ci() or os.geteuid() != 0 or shutil.which("apt-get") is None:
        raise NotInstalledError(f"needs the packages {', '.join(missing)}")
    root = _root()
    with locked_file(root / "packages.lock"):
        command = ["apt-get", "-q", "--yes", "--no-install-recommends", "install", *missing]
        run("apt-get", "-q", "update", at=str(root))
        run(*command, at=str(root), DEBIAN_FRONTEND="noninteractive")


def maven_jars(folder: Path) -> Path:
    """Return the directory with the jars that the pom.xml of a folder names."""
    require("java", "javac", "mvn")
    pom = (folder / "pom.xml").read_text()
    return installed(f"{folder.name}-{_digest(pom)}", lambda into: copy_dependencies(pom, into))


def java_classes(source: Path, jars: Path) -> Path:
    """Return the directory with the classes of a program that is compiled with some jars."""

    def build(into: Path) -> None:
        command = ["javac", "-nowarn", "-d", str(into), "-cp", f"{jars}/*", str(source)]
        subprocess.run(command, check=True, timeout=120)

    return installed(f"{source.stem.lower()}-{_digest(source.read_text() + str(jars))}", build)


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def copy_dependencies(pom: str, into: Path) -> None:
    """Fetch the jars of a Maven project's dependencies."""
    with tempfile.TemporaryDirectory() as work:
        Path(work, "pom.xml").write_text(pom)
        run("mvn", "-q", "-B", "dependency:copy-dependencies", f"-DoutputDirectory={into}", at=work)


def _fetch_zookeeper(into: Path) -> None:
    copy_dependencies(_ZOOKEEPER_POM, into)


def _fetch_etcd(into: Path) -> None:
    _unpack_package("etcd-server", into)


def _of_prometheus(program: str) -> Path:
    system_binary = shutil.which(program)
    if system_binary is not None:
        return Path(system_binary)
    require("apt-get", "dpkg")
    return installed("prometheus", _fetch_prometheus) / "usr/bin" / program


def _fetch_prometheus(into: Path) -> None:
    _unpack_package("prometheus", into)


def _fetch_axe(into: Path) -> None:
    run("npm", "pack", "--silent", f"axe-core@{AXE}", at=str(into))
    (package,) = into.glob("axe-core-*.tgz")
    run("tar", "-xzf", package.name, at=str(into))


def _fetch_chromium(into: Path) -> None:
    """Unpack Chromium, a font, and the packages that both need and this machine lacks."""
    names = lacking_packages(["chromium", "fonts-dejavu-core"], into)
    unpack_packages(["fonts-dejavu-core", *names], into)


def _unpack_package(name: str, into: Path) -> None:
    unpack_packages([name], into)


def lacking_packages(names: Sequence[str], at: Path) -> list[str]:
    """Return these packages and those that they need, without those that are installed."""
    command = ["apt-get", "--simulate", "--no-install-recommends", "install", *names]
    try:
        planned = run(*command, at=str(at))
    except NotInstalledError:  # the package list may be missing or outdated
        run("apt-get", "update", "-q", at=str(at))
        planned = run(*command, at=str(at))
    return [line.split()[1] for line in planned.splitlines() if line.startswith("Inst ")]


def unpack_packages(names: Sequence[str], into: Path) -> None:
    """Unpack packages of the distribution, without installing them."""
    with tempfile.TemporaryDirectory() as work:
        try:
            run("apt-get", "download", "-q", *names, at=work)
        except NotInstalledError:  # the package list may be missing or outdated
            run("apt-get", "update", "-q", at=work)
            run("apt-get", "download", "-q", *names, at=work)
        for package in sorted(Path(work).glob("*.deb")):
            run("dpkg", "-x", str(package), str(into), at=work)


def _fetch_toxiproxy(into: Path) -> None:
    go_install(f"github.com/Shopify/toxiproxy/v2/cmd/server@{TOXIPROXY}", into)


def _fetch_grpcurl(into: Path) -> None:
    go_install(f"github.com/fullstorydev/grpcurl/cmd/grpcurl@{GRPCURL}", into)


def _fetch_helm(into: Path) -> None:
    go_install(f"helm.sh/helm/v3/cmd/helm@{HELM}", into)


def _fetch_sslyze(into: Path) -> None:
    run(sys.executable, "-m", "venv", str(into), at=str(into))
    run(
        str(into / "bin/python"), "-m", "pip", "--disable-pip-version-check", "install", "--quiet",
        f"sslyze=={SSLYZE}", at=str(into),
    )  # fmt: skip


def go_install(module: str, into: Path) -> None:
    """Build a Go program into the directory."""
    run("go", "install", module, at=str(into), GOBIN=str(into))


def installed(name: str, fetch: Callable[[Path], None]) -> Path:
    """Return the directory ``name``; call ``fetch`` to fill it if it does not exist.

    A file lock makes concurrent test processes fetch it only once.
    """
    root = _root()
    directory = root / name
    with locked_file(root / f"{name}.lock"):
        if not directory.exists():
            fresh = Path(tempfile.mkdtemp(dir=root))
            try:
                fetch(fresh)
                fresh.rename(directory)
            finally:
                shutil.rmtree(fresh, ignore_errors=True)
    return directory


def _root() -> Path:
    """Return the directory of all that is fetched, which exists."""
    root = Path(os.environ.get("RHUMBLINE_SERVERS", Path.home() / ".cache/rhumbline/servers"))
    root.mkdir(parents=True, exist_ok=True)
    return root


def run(*command: str, at: str, **environment: str) -> str:
    """Run a program and return its output. Raises NotInstalledError."""
    try:
        done = subprocess.run(
            command,
            cwd=at,
            env={**os.environ, **environment},
            check=True,
            timeout=300,
            capture_output=True,
            text=True,
        )
        return done.stdout
    except subprocess.CalledProcessError as error:
        lines = (error.stderr or error.stdout).strip().splitlines() or ["no output"]
        raise NotInstalledError(f"{' '.join(command[:3])} failed: {lines[-1]}") from error
    except subprocess.TimeoutExpired as error:
        raise NotInstalledError(f"{' '.join(command[:3])} took more than 5 minutes") from error
