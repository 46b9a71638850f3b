"""``rhumbline chaos``: ls, run, report, overhead."""

import asyncio
from collections.abc import Sequence
from pathlib import Path

import click

from ..cli.output import ProgressBar, output_option, print_message, print_rows
from ..cli.output_schema import integer, listing, maybe, number, prints, record, rows, text
from ..core.protocol.errors import ConfigurationError
from .lab import scenario_library
from .lab.report.html_page import report_page
from .lab.report.junit import junit_xml
from .lab.report.scenario_outcome import ScenarioOutcome, load_folder
from .lab.scenario import ENSEMBLES, SIM, WAN, WORLDS, Scenario

FOLDER = Path("chaos-report")


@click.group()
def chaos() -> None:
    """Rehearse outages: run scenarios in the simulator, or with real processes behind toxiproxy."""


_OUTCOME = rows(
    record(
        {
            "scenario": text("Name of the scenario."),
            "world": text("sim or wan."),
            "seed": integer("Seed of the run."),
            "verdict": text("The result.", "passed", "failed"),
            "acked": integer("Acknowledged records."),
            "lost": integer("Acknowledged records that are not in the stream."),
            "duplicated": integer("Records that are in the stream twice."),
            "unavailable_ms": integer("Longest time without an acknowledgement."),
            "resume_ms": maybe(integer("Time until writes resumed after the fault.")),
            "seconds": number("Real time that the run took."),
        }
    )
)


@chaos.command()
@prints(
    rows(
        record(
            {
                "scenario": text("Name of the scenario."),
                "worlds": listing(text("World."), "Worlds that it runs in."),
                "title": text("What it shows."),
            }
        )
    )
)
@output_option
def ls(output: str) -> None:
    """List the scenarios of the library."""
    found = []
    for name in scenario_library.names():
        scenario = scenario_library.load(name)
        found.append({"scenario": name, "worlds": list(scenario.worlds), "title": scenario.title})
    print_rows(found, output, empty="the library is empty")


@chaos.command()
@click.argument("scenarios", nargs=-1, metavar="SCENARIO...")
@click.option("--all", "all_of", is_flag=True, help="Run every scenario of the library.")
@click.option(
    "--world",
    type=click.Choice(WORLDS),
    default=SIM,
    show_default=True,
    help="sim: the simulator, in virtual time; wan: real processes.",
)
@click.option(
    "--metadata",
    type=click.Choice(ENSEMBLES),
    help="Use this ensemble in scenarios that have another one (world wan).",
)
@click.option(
    "--seed", type=click.IntRange(0, 2**31), default=1, show_default=True, help="First seed."
)
@click.option(
    "--seeds",
    type=click.IntRange(1, 100_000),
    default=1,
    show_default=True,
    help="Number of consecutive seeds, from --seed on.",
)
@click.option(
    "--report",
    "folder",
    type=click.Path(path_type=Path, file_okay=False),
    default=FOLDER,
    show_default=True,
    help="Directory for outcomes and reports.",
)
@click.option(
    "--servers",
    type=click.Path(path_type=Path, file_okay=False),
    envvar="RHUMBLINE_SERVERS",
    help="Directory with toxiproxy and etcd, searched in addition to PATH.",
)
@click.option(
    "--keep",
    type=click.Path(path_type=Path, file_okay=False),
    help="Keep logs and data of real processes in this directory.",
)
@prints(_OUTCOME)
@output_option
def run(
    scenarios: tuple[str, ...],
    all_of: bool,
    world: str,
    metadata: str | None,
    seed: int,
    seeds: int,
    folder: Path,
    servers: Path | None,
    keep: Path | None,
    output: str,
) -> int:
    """Run scenarios (names in the library, or files), evaluate them and write a report.

    Exits with 0 if every invariant and every expectation held, otherwise with 1.
    """  # fmt: skip
    wanted = [
        scenario_library.load(name) for name in (scenario_library.names() if all_of else scenarios)
    ]
    if metadata is not None:
        wanted = [scenario.with_ensemble(metadata) for scenario in wanted]
    if not wanted:
        raise ConfigurationError("no scenario given; `rhumbline chaos ls` lists them")
    if all_of:
        wanted = [scenario for scenario in wanted if world in scenario.worlds]
    for scenario in wanted:
        if world not in scenario.worlds:
            raise ConfigurationError(
                f"{scenario.name} does not run in world {world}; its worlds are: "
                f"{', '.join(scenario.worlds)}"
            )
    outcomes: list[ScenarioOutcome] = []
    for scenario in wanted:
        for run_seed in range(seed, seed + seeds):
            with ProgressBar() as progress:
                label = f"{scenario.name}, {world}, seed {run_seed}"
                progress.show(label, len(outcomes), len(wanted) * seeds)
                outcome = _run_scenario(scenario, world, run_seed, servers, keep)
            outcome.save(folder)
            outcomes.append(outcome)
            if not outcome.is_good:
                print_message(f"{scenario.name} failed:")
                for fault in outcome.problems:
                    print_message(f"  {fault}")
    _print(outcomes, output)
    _write(outcomes, folder)
    return 0 if all(outcome.is_good for outcome in outcomes) else 1


@chaos.command()
@click.argument("folder", type=click.Path(path_type=Path, exists=True, file_okay=False))
@prints(_OUTCOME)
@output_option
def report(folder: Path, output: str) -> int:
    """Regenerate report.html and junit.xml from the outcomes in FOLDER, and print the table."""
    outcomes = load_folder(folder)
    if not outcomes:
        raise ConfigurationError(f"{folder}: no outcomes; `rhumbline chaos run` writes them")
    _print(outcomes, output)
    _write(outcomes, folder)
    return 0 if all(outcome.is_good for outcome in outcomes) else 1


@chaos.command()
@click.option("--appends", type=click.IntRange(10, 100_000), default=500, show_default=True,
              help="Number of appends.")  # fmt: skip
@click.option(
    "--servers",
    type=click.Path(path_type=Path, file_okay=False),
    envvar="RHUMBLINE_SERVERS",
    help="Directory with toxiproxy, searched in addition to PATH.",
)
@prints(
    rows(
        record(
            {
                "link": text("What the appends went through."),
                "appends": integer("Number of appends."),
                "p50_ms": number("Median latency."),
                "p95_ms": number("95th percentile."),
                "p99_ms": number("99th percentile."),
            }
        )
    )
)
@output_option
def overhead(appends: int, servers: Path | None, output: str) -> None:
    """Measure toxiproxy itself: append latency through idle links, and without links."""
    from .lab.toxiproxy_overhead import measure
    from .lab.wan.cluster import SERVERS

    measured = asyncio.run(measure(appends, servers or SERVERS))
    print_rows([row._asdict() for row in measured], output, empty="nothing was measured")


def _run_scenario(
    scenario: Scenario, world: str, seed: int, servers: Path | None, keep: Path | None
) -> ScenarioOutcome:
    from .lab.report.judgement import outcome_of

    if world == WAN:
        from .lab.wan.cluster import SERVERS
        from .lab.wan.wan_run import play_in_wan

        kept = keep / f"{scenario.name}-{seed}" if keep is not None else None
        playing = play_in_wan(scenario, seed, servers=servers or SERVERS, keep=kept)
        return outcome_of(asyncio.run(playing))
    from .lab.sim_run import play_in_sim

    return outcome_of(play_in_sim(scenario, seed))


def _print(outcomes: Sequence[ScenarioOutcome], output: str) -> None:
    found = [
        {
            "scenario": outcome.scenario,
            "world": outcome.world,
            "seed": outcome.seed,
            "verdict": "passed" if outcome.is_good else "failed",
            "acked": outcome.acked,
            "lost": outcome.lost,
            "duplicated": outcome.doubled,
            "unavailable_ms": round(outcome.unavailable_ms),
            "resume_ms": None if outcome.resume_ms is None else round(outcome.resume_ms),
            "seconds": round(outcome.real_s, 1),
        }
        for outcome in outcomes
    ]
    print_rows(found, output, empty="no scenario was run")


def _write(outcomes: Sequence[ScenarioOutcome], folder: Path) -> None:
    page, xml = folder / "report.html", folder / "junit.xml"
    page.write_text(report_page(outcomes), encoding="utf-8")
    xml.write_text(junit_xml(outcomes), encoding="utf-8")
    print_message(f"report: {page}, {xml}")
