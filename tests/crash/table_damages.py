"""Damages Iceberg tables: ``python -m rhumbline.tests.crash.table_damages 500``.

Each damage changes, cuts, removes or exchanges one file of a table's metadata that readers of the
current snapshot use. Afterwards `archive verify` must find a fault, unless every query returns the
same records as before: some bytes, such as times of old snapshots, have no effect. A query through
our data source never reads these files.
"""

import asyncio
import sys
import tempfile
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from pyiceberg.table import StaticTable

from rhumbline.coldstore.archive.catalog import scan_manifests
from rhumbline.coldstore.iceberg.check_tables import check_tables
from rhumbline.tests.unit.coldstore.iceberg.table_world import TableWorld
from rhumbline.tests.unit.spark.spark_world import archive_on_disk

_FILTERS = (
    "lssn >= 0",
    "lssn = 2",
    "lssn > 3",
    "created < '2000-01-01T00:00:00+00:00'",
    "txid > 40",
)


@dataclass(slots=True)
class TableOutcome:
    """The counts of a run, and what must never happen."""

    damages: Counter[str] = field(default_factory=Counter)
    """By kind of file and of damage."""
    found: int = 0
    queries: Counter[str] = field(default_factory=Counter)
    """Results of pyiceberg, which knows nothing of the archive."""
    harmless: list[str] = field(default_factory=list)
    """Not found, and without an effect."""
    missed: list[str] = field(default_factory=list)
    """Not found, although a query failed or returned something else."""


class DamagedTable:
    """The table of an archive on disk, whose files are damaged one at a time."""

    def __init__(self, root: Path) -> None:
        archive_on_disk(root / "cold")
        self._world = TableWorld(root / "cold")
        asyncio.run(self._world.registrar().run_once())
        table = self._world.table()
        self._metadata = table.metadata_location
        snapshot = table.current_snapshot()
        assert snapshot is not None
        manifests = [one.manifest_path for one in snapshot.manifests(table.io)]
        self._files = {
            "metadata": [_path(table.metadata_location)],
            "manifest list": [_path(snapshot.manifest_list)],
            "manifest": [_path(one) for one in manifests],
        }
        self._intact = {path: path.read_bytes() for paths in self._files.values() for path in paths}
        self._expected = self._results()
        assert self._faults() == 0

    def close(self) -> None:
        """Close the store and the catalogue."""
        asyncio.run(self._world.close())

    def run(self, count: int, seed: int) -> TableOutcome:
        """Damage the table ``count`` times."""
        random, outcome = Random(seed), TableOutcome()
        while outcome.damages.total() < count:
            path, name, data = self._damage(random)
            if data == self._intact[path]:
                continue
            if data is None:
                path.unlink()
            else:
                path.write_bytes(data)
            self._judge(name, outcome)
            path.write_bytes(self._intact[path])
        return outcome

    def _judge(self, name: str, outcome: TableOutcome) -> None:
        outcome.damages[name.partition(" at ")[0]] += 1
        try:
            result = "same" if self._results() == self._expected else "wrong"
        except Exception:
            result = "refused"
        outcome.queries[result] += 1
        if self._faults():
            outcome.found += 1
        elif result == "same":
            outcome.harmless.append(name)
        else:
            outcome.missed.append(f"{name}: {result}")

    def _damage(self, random: Random) -> tuple[Path, str, bytes | None]:
        kind = random.choice(sorted(self._files))
        path = random.choice(self._files[kind])
        data, other = self._intact[path], self._intact[random.choice(self._files[kind])]
        at, length = random.randrange(len(data)), random.randrange(1, 20)
        damages: dict[str, bytes | None] = {
            "flip": data[:at] + bytes([data[at] ^ (1 << random.randrange(8))]) + data[at + 1 :],
            "overwrite": data[:at] + random.randbytes(length) + data[at + length :],
            "digit": data[:at] + b"%d" % random.randrange(10) + data[at + 1 :],
            "cut": data[:at],
            "drop bytes": data[:at] + data[at + length :],
            "exchange": other,
            "remove": None,
        }
        name = random.choice(sorted(damages))
        return (
            path,
            f"{kind} {name} at byte {at}: {data[max(0, at - 20) : at + 20]!r}",
            damages[name],
        )

    def _faults(self) -> int:
        async def check() -> int:
            listing = await scan_manifests(self._world.cold)
            found = await check_tables(self._world.cold, self._world.tables, listing.folders)
            return len(found)

        return asyncio.run(check())

    def _results(self) -> list[list[tuple[object, ...]]]:
        table = StaticTable.from_metadata(self._metadata)
        found = []
        for text in _FILTERS:
            rows = table.scan(text, selected_fields=("lssn", "entry_id", "slot", "payload"))
            columns = rows.to_arrow().to_pydict().values()
            found.append(sorted(zip(*columns, strict=True)))
        return found


def _path(uri: str) -> Path:
    return Path(uri.removeprefix("file://"))


def main(given: list[str]) -> int:
    """Run the damages, print the counts, and return 1 if one was missed."""
    count, seed = int(given[0]), int(given[1]) if len(given) > 1 else 1
    with tempfile.TemporaryDirectory(prefix="rhumbline-tables-") as folder:
        damaged = DamagedTable(Path(folder))
        outcome = damaged.run(count, seed)
        damaged.close()
    for name, number in sorted(outcome.damages.items()):
        print(f"{number:6d}  {name}")
    for name, number in sorted(outcome.queries.items()):
        print(f"{number:6d}  queries of pyiceberg: {name}")
    for line in outcome.harmless:
        print(f"without effect: {line}")
    for line in outcome.missed:
        print(f"missed: {line}")
    print(
        f"{outcome.damages.total()} damages: verify found {outcome.found}, "
        f"{len(outcome.harmless)} had no effect, {len(outcome.missed)} missed"
    )
    return 1 if outcome.missed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
