"""Tries mutants with several pairs of fork servers."""

import json
import os
import queue
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

from rhumbline.tests.mutants import fork_server
from rhumbline.tests.mutants.baseline import Baseline
from rhumbline.tests.mutants.fork_server import KILLED, NEEDS_IMPORT, SURVIVED, Reply, Request
from rhumbline.tests.mutants.mutation import Mutant
from rhumbline.tests.mutants.selection import is_at_import, mirrored_file, tests_for

NOT_EXECUTED = "no test executes it"


@dataclass(frozen=True, slots=True)
class Result:
    """What the tests did with one mutant."""

    mutant: Mutant
    outcome: str
    by: str
    reason: str
    tests: int
    """Number of tests that execute the mutant, within the budget."""


class Server:
    """One fork server, started when it is first needed."""

    def __init__(self, root: Path, mode: str, folder: Path, pool: list[str]) -> None:
        self._root, self._mode, self._folder, self._pool = root, mode, folder, pool
        self._is_started = False

    def try_mutant(self, request: Request) -> Reply:
        """Send a request and wait for its reply."""
        if not self._is_started:
            self._start()
        self._socket.sendall(json.dumps(asdict(request)).encode() + b"\n")
        line = self._lines.readline()
        if not line:
            raise RuntimeError(f"the {self._mode} fork server ended: see {self._folder}")
        return Reply(**json.loads(line))

    def _start(self) -> None:
        self._socket, theirs = socket.socketpair()
        self._lines = self._socket.makefile()
        self._is_started = True
        command = [sys.executable, "-m", fork_server.__name__, self._mode]
        log = (self._folder / f"{self._mode}.log").open("wb")
        with theirs, log:
            self._process = subprocess.Popen(
                [*command, str(theirs.fileno()), str(self._folder), *self._pool],
                cwd=self._root, stdout=log, stderr=log, stdin=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
                env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1", "PYTHONHASHSEED": "0"},
            )  # fmt: skip

    def close(self) -> None:
        """Let the server end, and wait for it."""
        if self._is_started:
            self._lines.close()
            self._socket.close()
            self._process.wait()


class Runner:
    """Tries mutants; a test that fails on the unchanged product never counts."""

    def __init__(
        self, root: Path, pool: list[str], baseline: Baseline, workers: int, budget_s: float
    ) -> None:
        self._root, self._pool, self._baseline = root, pool, baseline
        self._workers = workers
        self._budget_s = budget_s
        self._reliable: dict[str, bool] = {}

    def run(self, mutants: list[Mutant], report: Callable[[Result], None]) -> list[Result]:
        """Return one result for each mutant, in the order of the mutants."""
        waiting: queue.SimpleQueue[int] = queue.SimpleQueue()
        for number in range(len(mutants)):
            waiting.put(number)
        results: dict[int, Result] = {}
        faults: list[BaseException] = []

        def work(folder: Path) -> None:
            servers = [Server(self._root, mode, folder, self._pool) for mode in ("warm", "cold")]
            try:
                while not faults and not waiting.empty():
                    number = waiting.get_nowait()
                    results[number] = self._try(mutants[number], *servers)
                    report(results[number])
            except queue.Empty:
                return
            except BaseException as fault:
                faults.append(fault)
            finally:
                for server in servers:
                    server.close()

        with tempfile.TemporaryDirectory(prefix="mutants-") as temporary:
            folders = [Path(temporary, str(worker)) for worker in range(self._workers)]
            threads = []
            for folder in folders:
                folder.mkdir()
                threads.append(threading.Thread(target=work, args=(folder,)))
                threads[-1].start()
            for thread in threads:
                thread.join()
            for fault in faults:
                logs = [path.read_text() for path in Path(temporary).rglob("*.log")]
                raise RuntimeError("\n".join(log[-3000:] for log in logs)) from fault
        return [results[number] for number in range(len(mutants))]

    def _try(self, mutant: Mutant, warm: Server, cold: Server) -> Result:
        tests = tests_for(mutant, self._baseline, self._budget_s)
        if not tests:
            return Result(mutant, SURVIVED, "", NOT_EXECUTED, 0)
        source = mutant.mutated((self._root / mutant.module).read_text())
        reply = Reply(NEEDS_IMPORT)
        if not is_at_import(mutant, self._baseline):
            reply = self._ask(warm, warm, mutant.module, source, tests)
        if reply.outcome == NEEDS_IMPORT:
            # The module's own tests are quickly collected, and kill most mutants.
            own = [test for test in tests if test.startswith(f"{mirrored_file(mutant.module)}::")]
            for part in (own, [test for test in tests if test not in own]):
                if part and reply.outcome in (NEEDS_IMPORT, SURVIVED):
                    reply = self._ask(cold, warm, mutant.module, source, part)
        return Result(mutant, reply.outcome, reply.by, reply.reason, len(tests))

    def _ask(
        self, server: Server, warm: Server, module: str, source: str, tests: list[str]
    ) -> Reply:
        """Try a mutant; a test that fails on the unchanged product too is left out."""
        while True:
            seconds = [self._baseline.seconds[test] for test in tests]
            reply = server.try_mutant(Request(module, source, tests, seconds))
            if reply.outcome != KILLED or self._is_reliable(module, reply.by, warm):
                return reply
            tests = [test for test in tests if test != reply.by]
            if not tests:
                return Reply(SURVIVED)

    def _is_reliable(self, module: str, test: str, warm: Server) -> bool:
        """Return whether a test passes alone, in a fork, on the unchanged product."""
        if test not in self._baseline.seconds:
            return True  # the mutant failed while it was imported
        if test not in self._reliable:
            request = Request(module, None, [test], [self._baseline.seconds[test]])
            self._reliable[test] = warm.try_mutant(request).outcome == SURVIVED
            if not self._reliable[test]:
                print(f"not used, it fails without a mutant: {test}", flush=True)
        return self._reliable[test]


class Progress:
    """Prints survivors as they are found, and from time to time how far the run is."""

    def __init__(self, total: int, is_equivalent: Callable[[Mutant], bool]) -> None:
        self._total, self._is_equivalent = total, is_equivalent
        self._done = self._killed = 0
        self._started = self._printed = time.monotonic()
        self._lock = threading.Lock()

    def __call__(self, result: Result) -> None:
        with self._lock:
            self._done += 1
            self._killed += result.outcome == KILLED
            if result.outcome == SURVIVED and not self._is_equivalent(result.mutant):
                why = result.reason or f"{result.tests} tests"
                print(f"survived ({why}): {result.mutant}", flush=True)
            now = time.monotonic()
            if now - self._printed > 30 or self._done == self._total:
                self._printed = now
                spent_s = now - self._started
                print(
                    f"{self._done} of {self._total} mutants, {self._killed} killed, "
                    f"{spent_s:.0f} s, {spent_s / self._done:.2f} s each",
                    flush=True,
                )
