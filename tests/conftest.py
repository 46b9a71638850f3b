"""Configuration of all tests: async tests, seeds, no silent skips in CI, a table of times."""

import asyncio
import inspect
import os
import shutil
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Coroutine, Generator
from typing import Any

import hypothesis
import pytest

from rhumbline.core.runtime.state_machine import check_thoroughly
from rhumbline.tests.support.ci import in_ci

FIRST_SEED = 1
FREE_BYTES = 10 * 2**30
"""Free disk space that all tests together need.

Without it bookies turn read-only, and dozens of tests fail for other apparent reasons.
"""

TOO_LATE = pytest.StashKey[bool]()
"""Set for a test that was skipped because it would have begun after `--last-start`."""

# Tests start servers by fork and exec while gRPC channels are open. gRPC's fork handlers can abort
# the child between the two, and only children that keep using the channels need them.
os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")

hypothesis.settings.register_profile("local", deadline=None, print_blob=True)
hypothesis.settings.register_profile("ci", deadline=None, print_blob=True, derandomize=True)


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("rhumbline")
    group.addoption("--seed", type=int, default=FIRST_SEED, help="first seed of simulated runs")
    group.addoption(
        "--seeds", type=int, default=None, help="how many seeds each simulated test runs"
    )
    group.addoption(
        "--last-start", type=float, default=None, help="skip tests that begin after this Unix time"
    )


def pytest_configure(config: pytest.Config) -> None:
    check_thoroughly(True)
    hypothesis.settings.load_profile("ci" if in_ci() else "local")


def pytest_sessionstart(session: pytest.Session) -> None:
    folder = tempfile.gettempdir()
    free = shutil.disk_usage(folder).free
    if free < FREE_BYTES:
        needed = FREE_BYTES >> 30
        pytest.exit(f"{folder} has {free >> 30} GiB of free space, tests need {needed} GiB", 2)


def pytest_report_header(config: pytest.Config) -> str:
    return f"rhumbline: first seed {config.option.seed}, CI={str(in_ci()).lower()}"


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run a test that takes `seed` once for each seed; its id names the seed."""
    if "seed" not in metafunc.fixturenames:
        return
    marker = metafunc.definition.get_closest_marker("seeds")
    count = metafunc.config.option.seeds
    if count is None:
        count = marker.args[0] if marker else 1
    first = metafunc.config.option.seed
    seeds = range(first, first + count)
    metafunc.parametrize("seed", seeds, ids=[f"seed={seed}" for seed in seeds])


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip a test that would begin after `--last-start`, and name it in the reason."""
    last_start = item.config.option.last_start
    if last_start is not None and time.time() > last_start:
        item.stash[TOO_LATE] = True
        pytest.skip(f"there was no time left to begin {item.nodeid}")


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run an `async def` test by what its mark `run_by` names, its fixture `world`, or asyncio."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    names = inspect.signature(pyfuncitem.obj).parameters
    marker = pyfuncitem.get_closest_marker("run_by")
    run: Callable[[Coroutine[Any, Any, None]], object]
    if marker is not None:
        run = marker.kwargs["runner"]
    elif "world" in pyfuncitem.funcargs:
        world: Any = pyfuncitem.funcargs["world"]
        run = world.run
    else:
        run = asyncio.run
    run(pyfuncitem.obj(**{name: pyfuncitem.funcargs[name] for name in names}))
    return True


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Turn the skip of a test that needs a real server into a failure if CI=true."""
    report = yield
    marker = item.get_closest_marker("needs_server")
    if report.skipped and marker is not None and in_ci() and TOO_LATE not in item.stash:
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longreprtext
        report.outcome = "failed"
        report.longrepr = f"CI=true allows no skip of a test of {marker.args[0]}: {reason}"
    return report


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print how long each test file took, and its share of the whole."""
    spent_s: dict[str, float] = defaultdict(float)
    for reports in terminalreporter.stats.values():
        for report in reports:
            if isinstance(report, pytest.TestReport):
                spent_s[report.nodeid.split("::")[0]] += report.duration
    total_s = sum(spent_s.values())
    if not total_s:
        return
    terminalreporter.section("time by file")
    for file, file_s in sorted(spent_s.items(), key=lambda item: -item[1]):
        terminalreporter.write_line(f"{file_s:8.2f} s {file_s / total_s:6.1%}  {file}")
