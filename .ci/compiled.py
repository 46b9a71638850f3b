"""Makes the compiled form of the package: a wheel for this platform, and its unpacked content.

    python .ci/compiled.py [FOLDER]      (default: build/compiled)

The results are FOLDER/dist/rhumbline-*.whl and FOLDER/rhumbline; with `PYTHONPATH=FOLDER` Python
imports the latter instead of the checkout. It holds the modules of rhumbline-lab too, for
benchmarks. A C compiler and the headers of this Python are needed.
"""

import shutil
import sys
import zipfile
from pathlib import Path

from build_backend import ROOT, compiled_wheel
from packages import LAB


def build(folder: Path) -> Path:
    """Build the wheel below ``folder`` and unpack it there; return the wheel."""
    dist = folder / "dist"
    shutil.rmtree(dist, ignore_errors=True)
    wheel = dist / compiled_wheel(dist)
    shutil.rmtree(folder / "rhumbline", ignore_errors=True)
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder)
    ignored = shutil.ignore_patterns("__pycache__")
    for name in LAB:
        shutil.copytree(ROOT / name, folder / "rhumbline" / name, ignore=ignored)
    return wheel


if __name__ == "__main__":
    print(build(Path(sys.argv[1] if len(sys.argv) > 1 else ROOT / "build/compiled").resolve()))
