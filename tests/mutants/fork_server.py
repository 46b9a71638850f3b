"""A process that tries mutants in forks of itself, so that a mutant costs no start of Python.

A *warm* server has collected all tests. A fork replaces the code of the mutated function and runs
the chosen tests. A *cold* server has imported pytest only. A fork imports the mutated module in
place of the real one, for changes that take effect while the module is imported.

``python -m rhumbline.tests.mutants.fork_server warm|cold DESCRIPTOR TEMPORARY POOL...``: requests
and replies are lines of JSON on the socket.
"""

import json
import os
import resource
import signal
import socket
import sys
from contextlib import suppress
from dataclasses import asdict, dataclass
from importlib import import_module
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import CodeType

import pytest

from rhumbline.tests.mutants import profile
from rhumbline.tests.mutants.code_patch import LoadedFunctions, NeedsImportError
from rhumbline.tests.mutants.imported_root import check_imported_root

CPU_FACTOR, CPU_EXTRA_S = 8.0, 1.0
"""The CPU time of a test is limited to a multiple of its duration, and a constant."""
WALL_FACTOR, WALL_EXTRA_S = 100.0, 120.0
"""The same for its wall-clock time, which other processes of the machine prolong."""
MEMORY_EXTRA_BYTES = 4 << 30
PRELOADED = ("hypothesis", "uvloop", "crc32c", "zstandard", "google.protobuf.message", "pytest")
"""What a cold server imports: libraries that most tests use, and nothing of the product."""
_START_EXTRA_S = 10.0
"""CPU time for the imports and the collection of a cold fork."""

KILLED, SURVIVED, NEEDS_IMPORT, INVALID = "killed", "survived", "needs import", "invalid"


@dataclass(frozen=True, slots=True)
class Request:
    """One mutant to try."""

    module: str
    source: str | None
    """The mutated source; None tries the unchanged module."""
    tests: list[str]
    seconds: list[float]
    """Durations of the tests when they are not disturbed."""


@dataclass(frozen=True, slots=True)
class Reply:
    """The result of one mutant."""

    outcome: str
    by: str = ""
    """The test that failed; "" if the mutant could not even be imported."""
    reason: str = ""


class FirstFailure:
    """A pytest plugin that limits each test's time and reports the first failure."""

    def __init__(self, request: Request, output: int) -> None:
        self._limits = dict(zip(request.tests, request.seconds, strict=True))
        self._output = output

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_logstart(self, nodeid: str) -> None:
        set_limits(self._limits.get(nodeid, 0.0), 0.0)
        os.pwrite(self._output, json.dumps(nodeid).ljust(1000).encode(), 0)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            finish(self._output, Reply(KILLED, report.nodeid, "failed"))


def set_limits(seconds: float, extra_s: float) -> None:
    """Let the kernel end this process after too much CPU or wall-clock time from now on."""
    signal.setitimer(signal.ITIMER_PROF, seconds * CPU_FACTOR + CPU_EXTRA_S + extra_s)
    signal.setitimer(signal.ITIMER_REAL, (seconds + extra_s) * WALL_FACTOR + WALL_EXTRA_S)


def finish(output: int, reply: Reply) -> None:
    """End a fork with its result, without any further code of the mutated product."""
    os.pwrite(output, b"\0" + json.dumps(asdict(reply)).ljust(2000).encode(), 2000)
    os._exit(0)


def limit_memory() -> None:
    """Limit the address space, for mutants that allocate without end."""
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    limit = pages * resource.getpagesize() + MEMORY_EXTRA_BYTES
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))


class WarmServer:
    """A pytest plugin that serves requests instead of running the collected tests."""

    def __init__(self, connection: socket.socket, output: int) -> None:
        self._connection = connection
        self._output = output

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        items = {item.nodeid: item for item in session.items}
        loaded = LoadedFunctions()
        code: dict[str, CodeType] = {}
        for line in self._connection.makefile():
            request = Request(**json.loads(line))
            if request.module not in code:
                path = session.config.rootpath / request.module
                code[request.module] = compile(path.read_text(), str(path), "exec")
            child = os.fork()
            if child == 0:
                os.setpgid(0, 0)
                self._try(request, items, loaded, code[request.module])
            answer(self._connection, self._output, child)
        return True

    def _try(
        self,
        request: Request,
        items: dict[str, pytest.Item],
        loaded: LoadedFunctions,
        old: CodeType,
    ) -> None:
        """Run the tests of a request in this process, and end it."""
        limit_memory()
        if request.source is not None:
            try:
                loaded.replace(old, compile(request.source, old.co_filename, "exec"))
            except (SyntaxError, ValueError) as error:
                finish(self._output, Reply(INVALID, reason=str(error)))
            except NeedsImportError as error:
                finish(self._output, Reply(NEEDS_IMPORT, reason=str(error)))
        chosen = [items[test] for test in request.tests if test in items]
        if chosen:
            failure = FirstFailure(request, self._output)
            chosen[0].config.pluginmanager.register(failure)
            for item, following in zip(chosen, [*chosen[1:], None], strict=True):
                item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
        finish(self._output, Reply(SURVIVED))


def serve_cold(connection: socket.socket, output: int, arguments: list[str]) -> None:
    """Serve requests with forks that import the mutated module."""
    for line in connection.makefile():
        request = Request(**json.loads(line))
        child = os.fork()
        if child == 0:
            os.setpgid(0, 0)
            limit_memory()
            _try_cold(request, output, arguments)
        answer(connection, output, child)


def _try_cold(request: Request, output: int, arguments: list[str]) -> None:
    path = str(Path.cwd() / request.module)
    if request.source is not None:
        try:
            mutated = compile(request.source, path, "exec")
        except (SyntaxError, ValueError) as error:
            finish(output, Reply(INVALID, reason=str(error)))
        original = SourceFileLoader.get_code

        def get_code(loader: SourceFileLoader, name: str) -> CodeType | None:
            is_mutated = os.path.realpath(loader.path) == os.path.realpath(path)
            return mutated if is_mutated else original(loader, name)

        SourceFileLoader.get_code = get_code  # type: ignore[method-assign, assignment]
    set_limits(max(request.seconds, default=0.0), _START_EXTRA_S)
    failure = FirstFailure(request, output)
    try:
        code = pytest.main([*arguments, *request.tests], [profile.Deterministic(), failure])
    except BaseException as error:
        finish(output, Reply(KILLED, reason=repr(error)[:200]))
    if code == pytest.ExitCode.OK:
        finish(output, Reply(SURVIVED))
    finish(output, Reply(KILLED, reason=f"pytest ends with {code}"))


def answer(connection: socket.socket, output: int, child: int) -> None:
    """Wait for a fork and send its result."""
    os.waitpid(child, 0)
    with suppress(ProcessLookupError):  # the usual case: it left no process behind
        os.killpg(child, signal.SIGKILL)
    text = os.pread(output, 10_000, 0)
    if len(text) > 2000:
        reply = json.loads(text[2001:])
    else:  # the kernel ended it, or the mutant did
        test = json.loads(text) if text.strip() else ""
        reply = asdict(Reply(KILLED, test, "ended, or took too long"))
    os.ftruncate(output, 0)
    connection.sendall(json.dumps(reply).encode() + b"\n")


def main(mode: str, descriptor: str, temporary: str, *pool: str) -> int:
    """Serve until the socket is closed."""
    check_imported_root(Path.cwd())
    connection = socket.socket(fileno=int(descriptor))
    connection.set_inheritable(False)
    output = os.open(f"{temporary}/{mode}.reply", os.O_RDWR | os.O_CREAT | os.O_TRUNC)
    arguments = [*profile.ARGUMENTS, *profile.NO_TIMEOUT, f"--basetemp={temporary}/{mode}"]
    if mode == "cold":
        for library in PRELOADED:
            import_module(library)
        serve_cold(connection, output, arguments)
    else:
        pytest.main([*arguments, *pool], [profile.Deterministic(), WarmServer(connection, output)])
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
