"""Apache Iceberg's Java library for tests: a small program that reads a table with it."""

import hashlib
import subprocess
from pathlib import Path

from rhumbline.tests.support.servers import installs

_SOURCES = Path(__file__).parents[2] / "interop" / "iceberg"
_JVM = ("java", "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")


def classpath() -> str:
    """Return the class path of the program, which is fetched and compiled first if necessary."""
    installs.require("java", "javac", "mvn")
    pom, source = (_SOURCES / "pom.xml").read_text(), _SOURCES / "ReadTable.java"
    jars = installs.installed(
        f"iceberg-{_digest(pom)}", lambda into: installs.copy_dependencies(pom, into)
    )

    def build(into: Path) -> None:
        command = ["javac", "-nowarn", "-d", str(into), "-cp", f"{jars}/*", str(source)]
        subprocess.run(command, check=True, timeout=120)

    name = f"iceberg-reader-{_digest(source.read_text() + str(jars))}"
    return f"{installs.installed(name, build)}:{jars}/*"


def read_table(catalog: Path, namespace: str, table: str, since: str, until: str) -> list[str]:
    """Return what the program prints about a table of a SQLite catalogue.

    ``since`` and ``until`` are times in ISO 8601, between which it also reads the records.
    """
    command = [*_JVM, "-cp", classpath(), "ReadTable"]
    done = subprocess.run(
        [*command, str(catalog), namespace, table, since, until],
        capture_output=True, text=True, timeout=150,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]
