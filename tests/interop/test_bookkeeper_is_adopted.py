"""The guide for teams that run Apache BookKeeper already, followed on its bookies."""

import json
import re
import shlex
import subprocess
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import pytest

from rhumbline.chaos.managed_process import ManagedProcess, bare_environment, rhumbline_command
from rhumbline.tests.support.servers.apache import (
    ApacheBookie,
    bookkeeper_jars,
    initialise,
    run_java,
)
from rhumbline.tests.support.servers.metadata_servers import ZooKeeper, started

pytestmark = [
    pytest.mark.needs_server("apache-bookkeeper"),
    pytest.mark.timeout(900),
    pytest.mark.long,
]

GUIDE = Path(__file__).resolve().parents[2] / "docs" / "how-to" / "adopt-bookkeeper.md"
REGIONS = ("bonn", "oslo", "rome")
COMMAND_S_MAX = 240
RECORDS_EACH = 50

_READY = {
    "bookie": r"^bookie \S+ serves ",
    "write-proxy": "proxy serves at ",
    "repair": "repairing",
}
"""The first words of commands that run until they are stopped, with what they print."""


class ApacheCluster:
    """ZooKeeper and three Apache bookies, and the processes that the guide adds."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.zookeeper = started(ZooKeeper)
        self.zookeeper.start()
        initialise(self.zookeeper.address)
        self.bookies = [ApacheBookie(self.zookeeper.address) for _ in REGIONS]
        for bookie in self.bookies:
            bookie.launch()
        for bookie in self.bookies:
            bookie.wait_ready()
        self.processes: list[ManagedProcess] = []
        self._environ = {
            "RHUMBLINE_CLUSTER__METADATA": f"zk://{self.zookeeper.address}",
            "RHUMBLINE_CLUSTER__REGION": "bonn",
            "RHUMBLINE_CLUSTER__COLD": f"file://{folder}/cold",
        }

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for process in self.processes:
            process.kill()
        for bookie in self.bookies:
            bookie.remove()
        self.zookeeper.remove()

    @property
    def ids(self) -> list[str]:
        """The ids of Apache's bookies."""
        return [f"127.0.0.1:{bookie.port}" for bookie in self.bookies]

    def here(self, text: str) -> str:
        """Return text of the guide with the addresses and folders of this cluster."""
        for number, own in enumerate(self.ids, 1):
            text = text.replace(f"10.{number}.0.1:3181", own)
        text = re.sub(r"10\.\d\.0\.2", "127.0.0.1", text)
        return text.replace("/var/lib/rhumbline", str(self.folder))

    def run(self, command: str, stdin: bytes = b"") -> str:
        """Run a command of the guide to its end and return what it prints."""
        arguments = shlex.split(self.here(command))[1:]
        done = subprocess.run(
            rhumbline_command(*arguments),
            input=stdin,
            capture_output=True,
            timeout=COMMAND_S_MAX,
            cwd=self.folder,
            env={**bare_environment(), **self._environ},
        )
        assert done.returncode == 0, f"{command}: {done.stdout.decode()} {done.stderr.decode()}"
        return done.stdout.decode()

    def start(self, command: str) -> None:
        """Start a server of the guide and wait until it serves."""
        arguments = shlex.split(self.here(command))[1:]
        name = f"process-{len(self.processes)}"
        process = ManagedProcess(
            name,
            rhumbline_command(*arguments, "--port", "0", "--status-port", "0")
            if arguments[0] != "repair"
            else rhumbline_command(*arguments, "--status-port", "0"),
            self.folder / f"{name}.log",
            ready=_READY[arguments[0]],
            environ=self._environ,
        )
        self.processes.append(process)
        process.start()

    def rows(self, command: str) -> list[dict[str, Any]]:
        """Return the rows that a command prints as JSON."""
        found: list[dict[str, Any]] = json.loads(self.run(f"{command} -o json"))
        return found


def commands_of(section: str) -> Iterator[str]:
    """Yield the commands of a section of the guide, in order."""
    text = GUIDE.read_text()
    part = text[text.index(f"## {section}") :].split("\n## ")[0]
    for block in re.findall(r"^```text\n(.*?)^```$", part, re.MULTILINE | re.DOTALL):
        for line in block.replace("\\\n", " ").splitlines():
            if line.startswith("rhumbline "):
                yield line.partition("#")[0].strip()


def follow(cluster: ApacheCluster, section: str) -> None:
    """Run the commands of a section in order; those of servers go on."""
    for command in commands_of(section):
        words = command.split()
        is_server = words[1] in ("bookie", "write-proxy", "repair") and "format" not in words
        if is_server:
            cluster.start(command)
        else:
            cluster.run(command)


def append(cluster: ApacheCluster, first: int, options: str = "") -> int:
    """Append records, read all from the beginning, and return the next number."""
    end = first + RECORDS_EACH
    numbers = "".join(f"{n}\n" for n in range(first, end)).encode()
    cluster.run(f"rhumbline stream append orders {options}", numbers)
    found = cluster.run("rhumbline stream read orders").split()
    assert found == [str(n) for n in range(end)], "all acknowledged records, in order"
    return end


def bookies_of_ledgers(cluster: ApacheCluster) -> set[str]:
    """Return the bookies that hold a copy of any ledger."""
    found = cluster.rows("rhumbline sql 'select distinct bookie from fragments'")
    return {str(row["bookie"]) for row in found}


def test_a_bookkeeper_cluster_becomes_a_rhumbline_cluster(tmp_path: Path) -> None:
    started(bookkeeper_jars)
    with ApacheCluster(tmp_path) as cluster:
        zookeeper = cluster.zookeeper.address
        made = run_java(zookeeper, "v3", "make:300")["make:300"]
        theirs = f"read:{made.partition('=')[2]}"
        guide = cluster.here(GUIDE.read_text())
        mapping = re.search(r"^```toml\n(.*?)^```$", guide, re.MULTILINE | re.DOTALL)
        assert mapping is not None
        (tmp_path / "regions.toml").write_text(mapping[1])

        follow(cluster, "Give their bookies regions")
        views = cluster.rows("rhumbline node ls")
        assert sorted((row["bookie"], row["region"]) for row in views) == sorted(
            zip(cluster.ids, REGIONS, strict=True)
        )
        follow(cluster, "Write to their bookies")
        end = append(cluster, 0)
        proxy = cluster.processes[0].find(r"proxy serves at (\S+)")
        end = append(cluster, end, f"--via grpc://{proxy}")
        cluster.run("rhumbline archive run")
        cluster.run("rhumbline archive verify")
        assert bookies_of_ledgers(cluster) <= set(cluster.ids)

        follow(cluster, "Add bookies of Rhumbline")
        end = append(cluster, end)
        later = run_java(zookeeper, "v3", "make:100")["make:100"]
        later_of_theirs = f"read:{later.partition('=')[2]}"

        follow(cluster, "Drain theirs")
        for bookie in cluster.bookies:
            bookie.stop()
        append(cluster, end)
        assert not bookies_of_ledgers(cluster) & set(cluster.ids)
        printed = run_java(zookeeper, "v3", theirs, later_of_theirs)
        assert printed[theirs] == "entries=300 closed=true"
        assert printed[later_of_theirs] == "entries=100 closed=true"
