"""Generates the Python stubs of every .proto file of the product.

`python .ci/protos.py FOLDER` writes them below FOLDER/rhumbline. The folder `.typecheck` holds one
link, to the root, so with it the stubs are written beside the .proto files. Services also get gRPC
stubs.
"""

import sys
from pathlib import Path

from grpc_tools import protoc

ROOT = Path(__file__).resolve().parent.parent


def protos(root: Path = ROOT) -> list[Path]:
    """Return every .proto file of the product, relative to the root, sorted."""
    found = (path.relative_to(root) for path in root.glob("[a-z]*/**/*.proto"))
    return sorted(path for path in found if path.parts[0] not in ("tests", "build", "dist"))


def generate(proto: Path, out: Path, root: Path = ROOT) -> None:
    """Write the stubs of `proto` below `out`. Raises RuntimeError if protoc fails."""
    arguments = [f"-I={root / '.typecheck'}", f"--python_out={out}", f"--pyi_out={out}"]
    if "\nservice " in (root / proto).read_text():
        arguments.append(f"--grpc_python_out={out}")
    name = root / ".typecheck" / "rhumbline" / proto
    if protoc.main(["protoc", *arguments, str(name)]) != 0:
        raise RuntimeError(f"protoc failed for {proto}")


if __name__ == "__main__":
    for path in protos():
        generate(path, Path(sys.argv[1]).resolve())
