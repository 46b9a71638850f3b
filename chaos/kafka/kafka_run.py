"""Runs the workload on real processes in three regions, through proxies, while faults happen.

In turn, a bookie or a proxy is killed and started again, or the links of a region to the bookies of
the others are cut and healed. Then the clients stop, and the logs are read once more.
"""

import json
import signal
import sys
import time
from collections import Counter
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from ...bench.harness.region_processes import RegionProcesses
from ...client.connect import connect
from ...client.system_runtime import run
from ...core.log.policy import StreamPolicy
from ...core.protocol.dlsn import FIRST_DLSN
from ...core.protocol.quorum import Quorum
from ..managed_process import ManagedProcess, python_command
from ..server_processes import ProxyProcess
from .anomalies import AnomalyReport, find_anomalies
from .clients import READY, SUBSCRIPTION
from .operations import Operation, decode

REGIONS = ("bonn", "oslo", "rome")
POLICY = StreamPolicy(quorum=Quorum(3, 3, 2, 2))
FAULTS = ("bookie", "proxy", "link", "proxy")
"""The kinds of faults, which happen in turn."""

_ROUND_TRIP_MS = 4.0
_AWAY_S = (1.0, 4.0)
_FINAL_S_MAX = 300.0
_STOP_S_MAX = 90.0


@dataclass(frozen=True, slots=True)
class KafkaPlan:
    """The size of a run."""

    seconds: float = 120.0
    clients: int = 2
    """Number of clients in each region."""
    keys: int = 4
    bookies: int = 2
    """Number of bookies in each region."""
    pause_s: float = 0.05
    """Average pause of a client between two operations."""
    fault_s: float = 8.0
    """Time between the ends of two faults."""
    seed: int = 1


@dataclass(slots=True)
class KafkaOutcome:
    """The result of a run."""

    report: AnomalyReport
    faults: Counter[str] = field(default_factory=Counter)


class KafkaRun:
    """The processes of one run, in ``folder``."""

    def __init__(self, plan: KafkaPlan, folder: Path) -> None:
        self.plan = plan
        self.folder = folder
        self.faults: Counter[str] = Counter()
        self._random = Random(f"kafka {plan.seed}")
        self._keys = [f"key-{number}" for number in range(plan.keys)]
        (folder / "bookies").mkdir(parents=True)
        self._bookies = RegionProcesses(folder / "bookies", REGIONS, each=plan.bookies)
        self._proxies = [
            ProxyProcess(
                folder, self._bookies.metadata, "write-proxy", f"proxy-{region}", "--with-read",
                region=region,
            )
            for region in REGIONS
        ]  # fmt: skip
        self._clients: list[ManagedProcess] = []

    def run(self) -> KafkaOutcome:
        """Start everything, disturb it, heal it, and judge what the clients recorded."""
        with ExitStack() as closing:
            closing.enter_context(self._bookies)
            self._bookies.set_round_trip(_ROUND_TRIP_MS)
            closing.callback(self._kill_all)
            for proxy in self._proxies:
                proxy.launch()
            for proxy in self._proxies:
                proxy.wait_ready()
            run(self._create_keys())
            self._start_clients()
            self._disturb()
            for client in self._clients:
                client.stop(_STOP_S_MAX)
            self._poll_to_end()
        report = find_anomalies(self._operations(), FIRST_DLSN[:3])
        return KafkaOutcome(report, self.faults)

    async def _create_keys(self) -> None:
        async with connect(self._uri_at(0)) as client:
            await client.namespaces.create("default", POLICY)
            namespace = client.namespace()
            for key in self._keys:
                await namespace.create_stream(key)
                await namespace.subscriptions.create(key, SUBSCRIPTION, FIRST_DLSN)

    def _uri_at(self, index: int) -> str:
        """Return the proxies' addresses, that of one region first."""
        proxies = self._proxies[index:] + self._proxies[:index]
        return "grpc://" + ",".join(proxy.address for proxy in proxies)

    # --- the clients ------------------------------------------------------------------------------

    def _start_clients(self) -> None:
        for index, region in enumerate(REGIONS):
            first = index * self.plan.clients
            numbers = list(range(first, first + self.plan.clients))
            self._clients.append(self._new_client(f"clients-{region}", index, numbers))
        for client in self._clients:
            client.launch()
        for client in self._clients:
            client.wait_ready()

    def _poll_to_end(self) -> None:
        """Read every log in another process, which remembers nothing of the run."""
        number = len(REGIONS) * self.plan.clients
        client = self._new_client("clients-final", 0, [number], is_final=True)
        self._clients.append(client)
        client.launch()
        give_up_at = time.monotonic() + _FINAL_S_MAX
        while client.is_running and time.monotonic() < give_up_at:
            time.sleep(0.1)
        if client.exit_code != 0:
            raise TimeoutError(f"the logs could not be read to their ends:\n{client.end_of_log()}")

    def _new_client(
        self, name: str, index: int, numbers: list[int], *, is_final: bool = False
    ) -> ManagedProcess:
        config = {
            "uri": self._uri_at(index),
            "region": REGIONS[index],
            "numbers": numbers,
            "keys": self._keys,
            "pause_s": self.plan.pause_s,
            "file": str(self.folder / f"{name}.jsonl"),
            "is_final": is_final,
        }
        command = python_command("chaos.kafka.clients", json.dumps(config))
        return ManagedProcess(name, command, self.folder / f"{name}.log", ready=READY)

    def _operations(self) -> list[Operation]:
        found: list[Operation] = []
        for client in self._clients:
            with (self.folder / f"{client.name}.jsonl").open() as lines:
                found += decode(lines)
        return found

    # --- faults -----------------------------------------------------------------------------------

    def _disturb(self) -> None:
        end = time.monotonic() + self.plan.seconds
        turn = 0
        while (left_s := end - time.monotonic()) > 0:
            time.sleep(min(self.plan.fault_s, left_s))
            if end - time.monotonic() < self.plan.fault_s:
                continue  # the last seconds are without faults
            kind = FAULTS[turn % len(FAULTS)]
            self.faults[kind] += 1
            self._cause(kind, self._random.uniform(*_AWAY_S))
            turn += 1

    def _cause(self, kind: str, away_s: float) -> None:
        """Cause a fault, wait, and heal it."""
        if kind == "bookie":
            directory = self._random.choice(self._bookies.directories)
            _log(f"kill {directory.name}, back after {away_s:.1f} s")
            self._bookies.end(directory, signal.SIGKILL)
            time.sleep(away_s)
            self._bookies.start(directory)
        elif kind == "proxy":
            proxy = self._random.choice(self._proxies)
            _log(f"kill {proxy.name}, back after {away_s:.1f} s")
            proxy.kill()
            time.sleep(away_s)
            proxy.start()
        else:
            region = self._random.choice(REGIONS)
            _log(f"cut the links of {region}, whole after {away_s:.1f} s")
            self._bookies.cut(region)
            time.sleep(away_s)
            self._bookies.heal(region)

    def _kill_all(self) -> None:
        for process in (*self._clients, *self._proxies):
            process.kill()


def _log(text: str) -> None:
    print(f"{time.strftime('%H:%M:%S')} {text}", file=sys.stderr, flush=True)
