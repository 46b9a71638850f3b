"""Apache Iceberg's Java library for tests: a small program that reads a table with it."""

import subprocess
from pathlib import Path

from rhumbline.tests.support.servers import installs

_SOURCES = Path(__file__).parents[2] / "interop" / "iceberg"
_JVM = ("java", "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")


def classpath() -> str:
    """Return the class path of the program, which is fetched and compiled first if necessary."""
    jars = installs.maven_jars(_SOURCES)
    return f"{installs.java_classes(_SOURCES / 'ReadTable.java', jars)}:{jars}/*"


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
