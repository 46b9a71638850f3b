"""``rhumbline chaos``: ls, run, report, overhead."""

import asyncio
from collections.abc import Sequence
from pathlib import Path

import click

from ...chaos.lab import scenario_library
from ...chaos.lab.report.html_page import report_page
from ...chaos.lab.report.junit import junit_xml
from ...chaos.lab.report.scenario_outcome import ScenarioOutcome, load_folder
from ...chaos.lab.scenario import SIM, WAN, WORLDS, Scenario
from ...core.protocol.errors import ConfigurationError
from ..output import ProgressBar, print_rows, say

FOLDER = Path("chaos-report")


@click.group()
def chaos() -> None:
    """Outages are rehearsed: scenarios in the simulator, or with real processes over toxiproxy."""


_output = click.option(
    "-o", "--output", type=click.Choice(["table", "json"]), default="table", show_default=True
)


@chaos.command()
@_output
def ls(output: str) -> None:
    """Lists the scenarios of the library."""
    rows = []
    for name in scenario_library.names():
        one = scenario_library.load(name)
        rows.append({"scenario": name, "worlds": ", ".join(one.worlds), "title": one.title})
    print_rows(rows, output, empty="the library is empty")


@chaos.command()
@click.argument("scenarios", nargs=-1, metavar="SCENARIO...")
@click.option("--all", "all_of", is_flag=True, help="Every scenario of the library.")
@click.option(
    "--world",
    type=click.Choice(WORLDS),
    default=SIM,
    show_default=True,
    help="Virtual time, or real processes.",
)
@click.option("--seed", type=click.IntRange(0, 2**31), default=1, show_default=True)
@click.option(
    "--seeds",
    type=click.IntRange(1, 100_000),
    default=1,
    show_default=True,
    help="So many seeds, from --seed on.",
)
@click.option(
    "--report",
    "folder",
    type=click.Path(path_type=Path, file_okay=False),
    default=FOLDER,
    show_default=True,
    help="Where outcomes and reports are written.",
)
@click.option(
    "--servers",
    type=click.Path(path_type=Path, file_okay=False),
    envvar="RHUMBLINE_SERVERS",
    help="Where toxiproxy and etcd are looked for besides PATH.",
)
@click.option(
    "--keep",
    type=click.Path(path_type=Path, file_okay=False),
    help="Keep logs and data of real processes here.",
)
@_output
def run(
    scenarios: tuple[str, ...],
    all_of: bool,
    world: str,
    seed: int,
    seeds: int,
    folder: Path,
    servers: Path | None,
    keep: Path | None,
    output: str,
) -> int:
    """Plays scenarios (names of the library, or files), judges them and writes a report.

    Exit code 0: every promise was kept and every expectation held; 1: not.
    """  # fmt: skip
    wanted = [
        scenario_library.load(name) for name in (scenario_library.names() if all_of else scenarios)
    ]
    if not wanted:
        raise ConfigurationError("which scenario? `rhumbline chaos ls` lists them")
    if all_of:
        wanted = [one for one in wanted if world in one.worlds]
    for one in wanted:
        if world not in one.worlds:
            raise ConfigurationError(f"{one.name} is not for world {world}: its worlds say so")
    progress, outcomes = ProgressBar(), []
    for one in wanted:
        for number in range(seed, seed + seeds):
            progress.show(f"{one.name}, {world}, seed {number}")
            outcome = _played(one, world, number, servers, keep)
            outcome.save(folder)
            outcomes.append(outcome)
            progress.clear()
            if not outcome.is_good:
                say(f"{one.name} failed:")
                for fault in outcome.faults:
                    say(f"  {fault}")
    _print(outcomes, output)
    _write(outcomes, folder)
    return 0 if all(one.is_good for one in outcomes) else 1


@chaos.command()
@click.argument("folder", type=click.Path(path_type=Path, exists=True, file_okay=False))
@_output
def report(folder: Path, output: str) -> int:
    """Writes report.html and junit.xml anew from the outcomes in FOLDER, and prints the table."""
    outcomes = load_folder(folder)
    if not outcomes:
        raise ConfigurationError(
            f"{folder}: there are no outcomes; `rhumbline chaos run` makes some"
        )
    _print(outcomes, output)
    _write(outcomes, folder)
    return 0 if all(one.is_good for one in outcomes) else 1


@chaos.command()
@click.option("--appends", type=click.IntRange(10, 100_000), default=500, show_default=True)
@click.option(
    "--servers",
    type=click.Path(path_type=Path, file_okay=False),
    envvar="RHUMBLINE_SERVERS",
    help="Where toxiproxy is looked for besides PATH.",
)
@_output
def overhead(appends: int, servers: Path | None, output: str) -> None:
    """Measures toxiproxy itself: append latency through idle links, and without links."""
    from ...chaos.lab.toxiproxy_overhead import measure
    from ...chaos.lab.wan.cluster import SERVERS

    rows = asyncio.run(measure(appends, servers or SERVERS))
    print_rows([row._asdict() for row in rows], output, empty="nothing was measured")


def _played(
    scenario: Scenario, world: str, seed: int, servers: Path | None, keep: Path | None
) -> ScenarioOutcome:
    from ...chaos.lab.report.judgement import outcome_of

    if world == WAN:
        from ...chaos.lab.wan.cluster import SERVERS
        from ...chaos.lab.wan.wan_run import play_in_wan

        kept = keep / f"{scenario.name}-{seed}" if keep is not None else None
        playing = play_in_wan(scenario, seed, servers=servers or SERVERS, keep=kept)
        return outcome_of(asyncio.run(playing))
    from ...chaos.lab.sim_run import play_in_sim

    return outcome_of(play_in_sim(scenario, seed))


def _print(outcomes: Sequence[ScenarioOutcome], output: str) -> None:
    rows = [
        {
            "scenario": one.scenario,
            "world": one.world,
            "seed": one.seed,
            "verdict": "held" if one.is_good else "failed",
            "acked": one.acked,
            "lost": one.lost,
            "twice": one.doubled,
            "unavailable_ms": round(one.unavailable_ms),
            "resume_ms": None if one.resume_ms is None else round(one.resume_ms),
            "seconds": round(one.real_s, 1),
        }
        for one in outcomes
    ]
    print_rows(rows, output, empty="nothing was played")


def _write(outcomes: Sequence[ScenarioOutcome], folder: Path) -> None:
    page, xml = folder / "report.html", folder / "junit.xml"
    page.write_text(report_page(outcomes), encoding="utf-8")
    xml.write_text(junit_xml(outcomes), encoding="utf-8")
    say(f"report: {page}, {xml}")
