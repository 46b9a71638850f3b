"""Makes the gRPC stubs of other languages and builds the example clients with them.

Toolchains come from the machine (Debian: `apt-get install golang nodejs npm default-jdk maven`; Go
fetches a newer version of itself if it needs one). Everything else comes from the Go module proxy,
npm and Maven Central, in versions that go.sum, package-lock.json and this module pin, and is cached
between runs.
"""

import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

from ..servers.installs import NotInstalledError, copy_dependencies, installed, require

ROOT = Path(__file__).resolve().parents[3]
EXAMPLES = ROOT / "docs" / "examples"
PROTO = ROOT / "proxies" / "rpc" / "rhumbline.proto"

_BUILT = shutil.ignore_patterns("bin", "rhumblinev1", "node_modules", "dist", "gen")
"""Folders of a build by hand."""
_GO_STUBS = "example.com/rhumbline/rhumblinev1"
_GO_PLUGINS = (
    "google.golang.org/protobuf/cmd/protoc-gen-go",
    "google.golang.org/grpc/cmd/protoc-gen-go-grpc",
)
_TYPESCRIPT_OPTIONS = (
    "outputServices=grpc-js,esModuleInterop=true,forceLong=bigint,env=node,importSuffix=.js"
)
_GRPC_JAVA = "1.76.0"
_PROTOBUF_JAVA = "4.36.2"
_POM = """\
<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>rhumbline.tests</groupId><artifactId>java-stubs</artifactId><version>1</version>
  <dependencies>{dependencies}</dependencies>
</project>
"""


def go_client(folder: Path) -> Path:
    """Build the Go client below ``folder``; return the module, with the program `bin/drive`."""
    require("go")
    module = folder / "go"
    shutil.copytree(EXAMPLES / "go", module, ignore=_BUILT)
    fetch(module, "go", "mod", "download")
    (module / "rhumblinev1").mkdir()
    run(module, "go", "build", "-o", "bin/", *_GO_PLUGINS)
    options = f"paths=source_relative,Mrhumbline.proto={_GO_STUBS}"
    make_stubs(
        f"--plugin={module / 'bin' / 'protoc-gen-go'}",
        f"--plugin={module / 'bin' / 'protoc-gen-go-grpc'}",
        f"--go_out={options}:{module / 'rhumblinev1'}",
        f"--go-grpc_out={options}:{module / 'rhumblinev1'}",
    )
    run(module, "go", "vet", "./...")
    run(module, "go", "build", "-o", "bin/", "./drive")
    return module


def typescript_client(folder: Path) -> Path:
    """Build the TypeScript client below ``folder``; return the package, with `dist/drive.js`."""
    require("node", "npm")
    package = folder / "typescript"
    shutil.copytree(EXAMPLES / "typescript", package, ignore=_BUILT)
    modules = _npm_modules(package) / "node_modules"
    (package / "node_modules").symlink_to(modules)
    (package / "src" / "gen").mkdir()
    options = (
        "outputServices=grpc-js,esModuleInterop=true,forceLong=bigint,env=node,importSuffix=.js"
    )
    make_stubs(
        f"--plugin=protoc-gen-ts_proto={modules / '.bin' / 'protoc-gen-ts_proto'}",
        f"--ts_proto_out={package / 'src' / 'gen'}",
        f"--ts_proto_opt={options}",
    )
    run(package, "node_modules/.bin/tsc")
    return package


def _npm_modules(package: Path) -> Path:
    """Return a folder with the modules that the lock file of the package names."""
    files = [package / "package.json", package / "package-lock.json"]
    digest = hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()[:16]

    def install(into: Path) -> None:
        for file in files:
            shutil.copy(file, into)
        fetch(into, "npm", "ci", "--silent", "--no-audit", "--no-fund")

    return installed(f"npm-{digest}", install)


def java_client(folder: Path) -> tuple[str, ...]:
    """Compile the Java stubs and the smoke client below ``folder``; return how to start it."""
    require("java", "javac", "mvn")
    jars = installed(f"java-stubs-{_GRPC_JAVA}-{_PROTOBUF_JAVA}", _fetch_jars)
    sources, classes = folder / "sources", folder / "classes"
    sources.mkdir()
    tools = {path.name.partition("-linux")[0]: path for path in jars.glob("*.exe")}
    for tool in tools.values():
        tool.chmod(0o755)
    run(
        folder,
        str(tools[f"protoc-{_PROTOBUF_JAVA}"]),
        f"-I={PROTO.parent}",
        f"--java_out={sources}",
        f"--plugin=protoc-gen-grpc-java={tools[f'protoc-gen-grpc-java-{_GRPC_JAVA}']}",
        f"--grpc-java_out={sources}",
        PROTO.name,
    )
    path = f"{jars}/*"
    files = [*sources.rglob("*.java"), *(EXAMPLES / "java").glob("*.java")]
    run(folder, "javac", "-d", str(classes), "-cp", path, *map(str, files))
    return ("java", "-XX:TieredStopAtLevel=1", "-cp", f"{classes}:{path}", "Smoke")


def _fetch_jars(into: Path) -> None:
    jar = "<dependency><groupId>{}</groupId><artifactId>{}</artifactId><version>{}</version>{}"
    exe = "<classifier>linux-x86_64</classifier><type>exe</type>"
    needed = (
        ("io.grpc", "grpc-stub", _GRPC_JAVA, ""),
        ("io.grpc", "grpc-protobuf", _GRPC_JAVA, ""),
        ("io.grpc", "grpc-netty-shaded", _GRPC_JAVA, ""),
        ("com.google.protobuf", "protobuf-java", _PROTOBUF_JAVA, ""),
        ("io.grpc", "protoc-gen-grpc-java", _GRPC_JAVA, exe),
        ("com.google.protobuf", "protoc", _PROTOBUF_JAVA, exe),
    )
    rows = "".join(jar.format(*one) + "</dependency>" for one in needed)
    copy_dependencies(_POM.replace("{dependencies}", rows), into)


def make_stubs(*arguments: str) -> None:
    """Run protoc on the .proto file of the proxies."""
    protoc = (sys.executable, "-m", "grpc_tools.protoc", f"-I={PROTO.parent}")
    run(PROTO.parent, *protoc, *arguments, PROTO.name)


def fetch(folder: Path, *command: str) -> None:
    """Run a tool that fetches from a registry. Raises NotInstalledError if it fails."""
    try:
        run(folder, *command)
    except RuntimeError as error:
        raise NotInstalledError(str(error)) from error


def run(folder: Path, *command: str, **environment: str) -> None:
    """Run a tool in a folder. Raises RuntimeError with its output if it fails."""
    done = subprocess.run(
        command,
        cwd=folder,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(command)} failed:\n{done.stdout}{done.stderr}")
