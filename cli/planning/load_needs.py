"""The machines, disks, traffic and cost of a load, for ``rhumbline plan --load``."""

import tomllib
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from ...client.settings_table import read_table, suggestion
from ...client.units import show_bytes
from ...core.protocol.errors import ConfigurationError
from ...core.protocol.quorum import Quorum
from ...placement.load_planner import Load, LoadPlan, Machine, MachineCount, Prices, plan_load
from ..output import format_table
from ..output_schema import integer, maybe, number, record, text

FILE_BYTES_MAX = 1 << 20

_MACHINES = record(
    {
        "machines": integer("Number of machines."),
        "limited_by": text("The resource that decides the number."),
        "cores": number("Cores in use at the busiest time, in all of them together."),
    }
)
LOAD = record(
    {
        "append_bytes_per_second": number("Payload bytes appended per second, at the peak."),
        "entries_per_second": number("Entries written per second, at the peak."),
        "hot_bytes": number("Bytes on bookies, all copies."),
        "archive_bytes": number("Bytes in the archive."),
        "wan_bytes_per_second": number("Bytes between regions per second, at the peak."),
        "wan_bytes_per_month": number("Bytes between regions in 30 days."),
        "bookies": _MACHINES,
        "proxies": _MACHINES,
        "currency": maybe(text("Currency of the costs; null without prices.")),
        "machines_per_month": maybe(number("Cost of the machines.")),
        "wan_per_month": maybe(number("Cost of traffic between regions.")),
        "archive_per_month": maybe(number("Cost of the archive.")),
        "cost_per_month": maybe(number("The sum.")),
    }
)
"""The schema of ``load_document``."""

_COSTS = ("machines_per_month", "wan_per_month", "archive_per_month", "cost_per_month")

T = TypeVar("T")


class LoadFiles(NamedTuple):
    """A load, and the machines and prices that it is planned with."""

    load: Load
    machine: Machine
    prices: Prices | None


def read_load_files(load: Path, prices: Path | None) -> LoadFiles:
    """Read ``[load]`` of one file, and ``[machine]`` and ``[prices]`` of another one.

    Raises ConfigurationError, which lists every fault.
    """
    errors: list[str] = []
    wanted = _section(load, "load", Load, _read(load, ("load",), errors), errors)
    if prices is None:
        machine: Machine | None = Machine()
        costs: Prices | None = None
    else:
        table = _read(prices, ("machine", "prices"), errors)
        machine = _section(prices, "machine", Machine, table, errors)
        costs = _section(prices, "prices", Prices, table, errors)
    if errors:
        raise ConfigurationError("\n".join(errors))
    assert wanted is not None and machine is not None
    return LoadFiles(wanted, machine, costs)


def load_needs(
    files: LoadFiles, quorum: Quorum, wan_bytes_per_byte: float, regions: int
) -> LoadPlan:
    """Return what the load needs with a quorum."""
    return plan_load(
        files.load,
        quorum,
        wan_bytes_per_byte,
        files.machine,
        files.prices or Prices(),
        regions=regions,
    )


def load_document(found: LoadPlan, prices: Prices | None) -> dict[str, Any]:
    """Return what a load needs as JSON values."""
    document: dict[str, Any] = {
        name: round(getattr(found, name), 1)
        for name in (
            "append_bytes_per_second", "entries_per_second", "hot_bytes", "archive_bytes",
            "wan_bytes_per_second", "wan_bytes_per_month",
        )
    }  # fmt: skip
    for name, count in (("bookies", found.bookies), ("proxies", found.proxies)):
        document[name] = {
            "machines": count.machines,
            "limited_by": count.limited_by,
            "cores": round(count.cores, 3),
        }
    document["currency"] = None if prices is None else prices.currency
    for name in _COSTS:
        document[name] = None if prices is None else round(getattr(found, name), 2)
    return document


def load_text(found: LoadPlan, prices: Prices | None) -> str:
    """Return what a load needs as printable lines."""
    currency = "" if prices is None else f" {prices.currency}"

    def cost(value: float) -> str:
        return "-" if prices is None else f"{value:,.0f}{currency}"

    def machines(count: MachineCount) -> str:
        return f"{count.machines}; {count.limited_by} decides; {count.cores:.1f} cores in use"

    rows: list[dict[str, str]] = []

    def add(need: str, amount: str, month: str = "-") -> None:
        rows.append({"the load needs": need, "amount": amount, "cost per month": month})

    add("bookies", machines(found.bookies))
    add("proxies", machines(found.proxies))
    add("all machines", str(found.bookies.machines + found.proxies.machines),
        cost(found.machines_per_month))  # fmt: skip
    add("disks, all copies", show_bytes(found.hot_bytes))
    add("appends at the peak", f"{show_bytes(found.append_bytes_per_second)}/s")
    add("entries at the peak", f"{found.entries_per_second:,.0f}/s")
    add("WAN at the peak", f"{show_bytes(found.wan_bytes_per_second)}/s")
    add("WAN", f"{show_bytes(found.wan_bytes_per_month)} in 30 days", cost(found.wan_per_month))
    add("archive", show_bytes(found.archive_bytes), cost(found.archive_per_month))
    add("together", "", cost(found.cost_per_month))
    return format_table(rows)


def _read(file: Path, sections: tuple[str, ...], errors: list[str]) -> dict[str, Any]:
    try:
        with file.open("rb") as opened:
            content = opened.read(FILE_BYTES_MAX + 1)
        if len(content) > FILE_BYTES_MAX:
            raise ConfigurationError(f"{file}: more than {FILE_BYTES_MAX} bytes")
        table = tomllib.loads(content.decode("utf-8"))
    except (OSError, UnicodeDecodeError, RecursionError) as error:
        raise ConfigurationError(f"{file}: cannot be read: {error}") from error
    except tomllib.TOMLDecodeError as error:
        raise ConfigurationError(f"{file}: invalid TOML: {error}") from error
    for name in table:
        if name not in sections:
            errors.append(f"{file}: unknown section [{name}]{suggestion(name, sections)}")
    return table


def _section(
    file: Path, name: str, cls: type[T], table: dict[str, Any], errors: list[str]
) -> T | None:
    content = table.get(name, {})
    if not isinstance(content, dict):
        errors.append(f"{file}: {name} must be a section: [{name}]")
        return None
    return read_table(cls, content, f"{file}: {name}", errors)
