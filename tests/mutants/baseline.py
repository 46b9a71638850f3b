"""The baseline: which tests execute which lines of the unchanged product, and how long they take.

Test files are measured in one process each time something changed: the result of a file is kept
until the product, the helpers of the tests or the file itself change.

``python -m rhumbline.tests.mutants.baseline OUTPUT PRODUCT_FOLDER FILE...`` measures.
"""

import gc
import hashlib
import json
import subprocess
import sys
import time
from collections.abc import Generator, Iterable
from dataclasses import dataclass
from functools import _lru_cache_wrapper
from pathlib import Path

import coverage
import pytest

from rhumbline.tests.mutants import profile
from rhumbline.tests.mutants.imported_root import check_imported_root

AT_IMPORT = ""
"""The context of lines that run while modules are imported."""


@dataclass(frozen=True, slots=True)
class Baseline:
    """The tests of the pool: what they execute and how long they take."""

    seconds: dict[str, float]
    """CPU time of each test that passed, by its node id."""
    lines: dict[str, dict[int, set[str]]]
    """For each module and line: the tests that execute the line, or `AT_IMPORT`."""

    def tests_of(self, module: str, lines: Iterable[int]) -> set[str]:
        """Return the tests that execute one of the lines; AT_IMPORT stands for an import."""
        by_line = self.lines.get(module, {})
        return {test for line in lines for test in by_line.get(line, ())}


def measure(root: Path, product: str, pool: list[str], cache: Path) -> Baseline:
    """Return the baseline of all test files below the folders of ``pool``."""
    files = sorted({path for folder in pool for path in (root / folder).rglob("test_*.py")})
    helpers = {path for path in (root / "tests").rglob("*.py") if not path.name.startswith("test_")}
    shared = _digest([*sorted((root / product).rglob("*.py")), *sorted(helpers)])
    cache.mkdir(parents=True, exist_ok=True)
    wanted = {path: cache / f"{_digest([path], shared)}.json" for path in files}
    missing = [path for path, kept in wanted.items() if not kept.exists()]
    if missing:
        names = [str(path.relative_to(root)) for path in missing]
        print(f"measuring {len(names)} test files", flush=True)
        output = cache / "measured.json"
        command = [sys.executable, "-m", "rhumbline.tests.mutants.baseline", str(output), product]
        subprocess.run([*command, *names], cwd=root, check=True, stdout=subprocess.DEVNULL)
        measured = json.loads(output.read_text())
        for path, name in zip(missing, names, strict=True):
            wanted[path].write_text(json.dumps(_part(measured, name)))
    return _join(json.loads(kept.read_text()) for kept in wanted.values())


def _digest(paths: list[Path], salt: str = "") -> str:
    digest = hashlib.sha256(salt.encode())
    for path in paths:
        digest.update(str(path).encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()[:24]


def _is_of(test: str, file: str) -> bool:
    return test == AT_IMPORT or test.startswith(f"{file}::")


def _part(measured: dict, file: str) -> dict:  # type: ignore[type-arg]
    """Return what was measured of one test file."""
    lines = {
        module: {line: kept for line, tests in by_line.items()
                 if (kept := [test for test in tests if _is_of(test, file)])}
        for module, by_line in measured["lines"].items()
    }  # fmt: skip
    return {
        "seconds": {test: s for test, s in measured["seconds"].items() if _is_of(test, file)},
        "lines": lines,
    }


def _join(parts: Iterable[dict]) -> Baseline:  # type: ignore[type-arg]
    joined = Baseline({}, {})
    for part in parts:
        joined.seconds.update(part["seconds"])
        for module, by_line in part["lines"].items():
            lines = joined.lines.setdefault(module, {})
            for line, tests in by_line.items():
                lines.setdefault(int(line), set()).update(tests)
    return joined


# --- the measuring process ----------------------------------------------------------------------


class Measure:
    """A pytest plugin that names each test to coverage.py and notes its CPU time."""

    def __init__(self, tracer: coverage.Coverage) -> None:
        self._tracer = tracer
        self.seconds: dict[str, float] = {}
        self._failed: set[str] = set()
        self._caches: list[_lru_cache_wrapper[object]] | None = None

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        if self._caches is None:
            self._caches = [one for one in gc.get_objects() if isinstance(one, _lru_cache_wrapper)]
        for cache in self._caches:  # every test executes what it needs, not only the first one
            if str(cache.__module__).startswith("rhumbline.core."):
                cache.cache_clear()
        self._tracer.switch_context(item.nodeid)
        started = time.process_time()
        try:
            return (yield)
        finally:
            self.seconds[item.nodeid] = round(time.process_time() - started, 4)
            self._tracer.switch_context(AT_IMPORT)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if not report.passed:
            self._failed.add(report.nodeid)

    def passed(self) -> dict[str, float]:
        """Return the durations of the tests that passed."""
        return {test: s for test, s in self.seconds.items() if test not in self._failed}


def main(output: str, product: str, *files: str) -> int:
    """Run the test files and write what they execute; returns pytest's exit code."""
    root = Path.cwd()
    check_imported_root(root)
    tracer = coverage.Coverage(
        data_file=None, source=[str(root / product)], config_file=False, messages=False
    )
    plugin = Measure(tracer)
    tracer.start()
    code = pytest.main([*profile.ARGUMENTS, *files], plugins=[profile.Deterministic(), plugin])
    tracer.stop()
    data = tracer.get_data()
    passed = plugin.passed()
    lines = {}
    for name in sorted(data.measured_files()):
        by_line = data.contexts_by_lineno(name)
        lines[str(Path(name).relative_to(root))] = {
            line: sorted(test for test in tests if test == AT_IMPORT or test in passed)
            for line, tests in by_line.items()
        }
    Path(output).write_text(json.dumps({"seconds": passed, "lines": lines}))
    return int(code) if code not in (0, pytest.ExitCode.TESTS_FAILED) else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
