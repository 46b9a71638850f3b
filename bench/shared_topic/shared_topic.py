"""Many producers and consumers of one keyed topic through proxies, while processes are killed.

``python -m rhumbline.bench.shared_topic.shared_topic --seconds 600``. All processes run on this
machine: bookies, proxies of both roles, producers and consumers. Every few seconds one of them is
killed (SIGKILL) and started again later. At the end the producers stop, the consumers catch up, and
the records of all programs are compared (``delivery_audit``). The exit code is 1 after any fault.
"""

import argparse
import asyncio
import json
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from pathlib import Path
from random import Random

from ...chaos.managed_process import ManagedProcess, python_command
from ...chaos.server_processes import ProxyProcess
from ...client.connect import connect
from ...client.system_runtime import run
from ...client.topics import Topics
from ...core.log.api.log_client import LogClient
from ...core.log.policy import StreamPolicy
from ...core.protocol.errors import RhumblineError
from ...core.protocol.quorum import Quorum
from ..harness.bookie_processes import REGION, BookieProcesses
from .delivery_audit import DeliveryVerdict, Records, judge
from .programs import GROUP, READY, TOPIC

POLICY = StreamPolicy(quorum=Quorum(3, 3, 2, 1))
VICTIMS = ("consumer", "producer", "proxy", "bookie", "consumer", "producer")
"""The kinds of processes that are killed in turn."""
_AWAY_S = (1.0, 5.0)
_CATCH_UP_S_MAX = 180.0
_STOP_S_MAX = 60.0


@dataclass
class Plan:
    """The size of a run."""

    seconds: float = 600.0
    producers: int = 16
    consumers: int = 8
    partitions: int = 32
    proxies: int = 3
    bookies: int = 4
    rate: float = 10.0
    """Records per second of each producer."""
    kill_s: float = 10.0
    """Time between two kills."""
    seed: int = 1


@dataclass
class Outcome:
    """The result of a run."""

    verdict: DeliveryVerdict
    killed: Counter[str] = field(default_factory=Counter)
    catch_up_s: float | None = None
    """Time from the stop of the producers until all is committed; None: never."""

    @property
    def is_clean(self) -> bool:
        """True if the verdict is, and the lag went back to 0."""
        return self.verdict.is_clean and self.catch_up_s is not None


class SharedTopic:
    """The processes of one run, in ``folder``."""

    def __init__(self, plan: Plan, folder: Path) -> None:
        self.plan = plan
        self.folder = folder
        self.killed: Counter[str] = Counter()
        self._random = Random(plan.seed)
        self._bookies = BookieProcesses(folder / "bookies", count=plan.bookies)
        self._proxies: list[ProxyProcess] = []
        self._producers: list[ManagedProcess] = []
        self._consumers: list[ManagedProcess] = []

    def run(self) -> Outcome:
        """Start everything, kill, catch up, judge."""
        with ExitStack() as closing:
            self.folder.mkdir(exist_ok=True)
            (self.folder / "bookies").mkdir()
            closing.enter_context(self._bookies)
            closing.callback(self._kill_all)
            metadata = self._bookies.metadata
            for number in range(self.plan.proxies):
                proxy = ProxyProcess(
                    self.folder, metadata, "write-proxy", f"proxy-{number}", "--with-read",
                    region=REGION,
                )  # fmt: skip
                proxy.launch()
                self._proxies.append(proxy)
            for proxy in self._proxies:
                proxy.wait_ready()
            run(self._create())
            self._start_programs()
            self._kill_in_turn()
            _log("the producers stop")
            for producer in self._producers:
                producer.stop(_STOP_S_MAX)
            stopped_at = time.monotonic()
            has_caught_up = run(self._catch_up())
            catch_up_s = time.monotonic() - stopped_at if has_caught_up else None
            for consumer in self._consumers:
                consumer.stop(_STOP_S_MAX)
        return Outcome(judge(self._records()), self.killed, catch_up_s)

    @property
    def _uri(self) -> str:
        return "grpc://" + ",".join(proxy.address for proxy in self._proxies)

    async def _create(self) -> None:
        async with connect(self._uri) as client:
            await client.namespaces.create("default", POLICY)
            await Topics(client).create(TOPIC, self.plan.partitions)

    def _start_programs(self) -> None:
        for kind, count, programs in (
            ("produce", self.plan.producers, self._producers),
            ("consume", self.plan.consumers, self._consumers),
        ):
            for number in range(count):
                name = f"{kind}r-{number}"
                command = python_command(
                    "bench.shared_topic.programs", kind, self._uri, name, str(self.plan.rate),
                    str(self.folder / f"{name}.txt"),
                )  # fmt: skip
                program = ManagedProcess(name, command, self.folder / f"{name}.log", ready=READY)
                program.launch()
                programs.append(program)
        for program in (*self._producers, *self._consumers):
            program.wait_ready()

    def _kill_in_turn(self) -> None:
        end = time.monotonic() + self.plan.seconds
        turn = 0
        while (left_s := end - time.monotonic()) > 0:
            time.sleep(min(self.plan.kill_s, left_s))
            if end - time.monotonic() < self.plan.kill_s:
                continue
            self._kill(VICTIMS[turn % len(VICTIMS)])
            turn += 1

    def _kill(self, kind: str) -> None:
        away_s = self._random.uniform(*_AWAY_S)
        self.killed[kind] += 1
        if kind == "bookie":
            directory = self._random.choice(self._bookies.directories)
            _log(f"kill {kind} {directory.name}, back after {away_s:.1f} s")
            self._bookies.end(directory, signal.SIGKILL)
            time.sleep(away_s)
            self._bookies.start(directory)
            return
        processes: dict[str, list[ManagedProcess]] = {
            "consumer": self._consumers,
            "producer": self._producers,
            "proxy": list(self._proxies),
        }
        process = self._random.choice(processes[kind])
        _log(f"kill {process.name}, back after {away_s:.1f} s")
        process.kill()
        time.sleep(away_s)
        process.start()

    async def _catch_up(self) -> bool:
        """Wait until the group has committed every record. Return whether it has."""
        give_up_at = time.monotonic() + _CATCH_UP_S_MAX
        async with connect(self._uri) as client:
            streams = list((await Topics(client).get(TOPIC)).streams)
            while streams and time.monotonic() < give_up_at:
                try:
                    if not await has_lag(client, streams[-1]):
                        streams.pop()
                        continue
                except RhumblineError as error:
                    _log(f"reading the lag of {streams[-1]}: {error}")
                await asyncio.sleep(0.2)
        return not streams

    def _records(self) -> Records:
        records = Records()
        for program in self._producers:
            records.add_producer(self._lines(program))
        for program in self._consumers:
            records.add_consumer(self._lines(program))
        return records

    def _lines(self, program: ManagedProcess) -> list[str]:
        path = self.folder / f"{program.name}.txt"
        return path.read_text(errors="replace").splitlines() if path.exists() else []

    def _kill_all(self) -> None:
        for process in (*self._producers, *self._consumers, *self._proxies):
            process.kill()


async def has_lag(client: LogClient, stream: str) -> bool:
    """Return whether records of a partition are above the position that the group committed."""
    namespace = client.namespace()
    end = await namespace.end(stream)
    held = await namespace.subscriptions.read(stream, GROUP)
    async with client.reader(stream, held.position) as reader:
        return await reader.next_batch(until=end) is not None


def _log(text: str) -> None:
    print(f"{time.strftime('%H:%M:%S')} {text}", file=sys.stderr, flush=True)


def main(arguments: list[str] | None = None) -> int:
    """Run as the command line says, print the outcome as JSON, and return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    defaults = asdict(Plan())
    for name, value in defaults.items():
        parser.add_argument(f"--{name.replace('_', '-')}", type=type(value), default=value)
    parser.add_argument("--folder", type=Path, help="keep the files of the run there")
    given = vars(parser.parse_args(arguments))
    kept = given.pop("folder")
    folder = kept or Path(tempfile.mkdtemp(prefix="shared-topic-"))
    outcome = SharedTopic(Plan(**given), folder).run()
    if kept is None and outcome.is_clean:
        shutil.rmtree(folder)
    elif not outcome.is_clean:
        _log(f"faults were found; the files of the run are in {folder}")
    verdict = {
        name: value if isinstance(value, int) else {"count": len(value), "first": value[:5]}
        for name, value in asdict(outcome.verdict).items()
    }
    print(json.dumps({
        "plan": given, "killed": outcome.killed, "catch_up_s": outcome.catch_up_s, **verdict,
        "is_clean": outcome.is_clean,
    }, indent=2))  # fmt: skip
    return 0 if outcome.is_clean else 1


if __name__ == "__main__":
    sys.exit(main())
