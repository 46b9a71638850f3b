"""The compiled form of the checkout, made once by `make compiled` for all tests that need it."""

import sysconfig
from pathlib import Path

import pytest

from rhumbline.tests.support.locked_file import locked_file
from rhumbline.tests.support.processes.plain_commands import run
from rhumbline.tests.support.tidy.source_tree import ROOT

COMPILED = ROOT / "build/compiled"


def compiled_wheel() -> Path:
    """Return the wheel; its content is unpacked in COMPILED. Skips the test without a C compiler.

    Compiling takes minutes, so processes of tests that run in parallel wait for one build.
    """
    header = Path(sysconfig.get_path("include")) / "Python.h"
    if not header.is_file():
        pytest.skip(f"no C headers of this Python: {header}")
    COMPILED.parent.mkdir(exist_ok=True)
    with locked_file(COMPILED.with_name("compiled.lock")):
        run("make", "--no-print-directory", "compiled", cwd=ROOT)
    (wheel,) = (COMPILED / "dist").glob("*.whl")
    return wheel
