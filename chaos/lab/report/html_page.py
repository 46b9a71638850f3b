"""Renders outcomes as one self-contained HTML page: timeline, expectations, service levels."""

from collections.abc import Iterator, Sequence
from html import escape

from ....client.units import show_ms
from ..scenario import APPEND, DELIVER, EVERYWHERE
from .scenario_outcome import Invariant, ScenarioOutcome, ServiceLevel
from .timeline import timeline

_STYLE = """
:root { --ink: #1c2430; --soft: #5c6b7f; --line: #dfe5ec; --back: #f6f8fa; --card: #ffffff;
  --good: #1a7f4b; --bad: #c22f2f; --ack: #2667c9; --deliver: #12a08a; --fault: #d9772b; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6ebf2; --soft: #9aa8ba; --line: #2f3a48;
  --back: #11161d; --card: #1a212b; --good: #4cc38a; --bad: #ff7b72; --ack: #6ea8fe;
  --deliver: #4fd1b8; --fault: #f0a05a; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--back); color: var(--ink);
  font: 15px/1.5 system-ui, "Segoe UI", sans-serif; }
main { max-width: 1180px; margin: 0 auto; padding: 28px 24px 64px; }
h1 { font-size: 26px; margin: 0 0 4px; } h2 { font-size: 21px; margin: 0; }
h3 { font-size: 15px; margin: 26px 0 8px; }
p { margin: 6px 0; max-width: 90ch; } .soft { color: var(--soft); }
section { background: var(--card); border: 1px solid var(--line); border-radius: 10px;
  padding: 22px 24px; margin-top: 24px; }
.head { display: flex; gap: 14px; align-items: center; flex-wrap: wrap; }
.badge { border-radius: 99px; padding: 2px 12px; font-weight: 600; font-size: 13px; color: #fff; }
.badge.good { background: var(--good); } .badge.bad { background: var(--bad); }
.tag { border: 1px solid var(--line); border-radius: 6px; padding: 1px 8px; font-size: 13px;
  color: var(--soft); }
.cards { display: grid; grid-template-columns: repeat(auto-fit, minmax(150px, 1fr)); gap: 10px;
  margin: 18px 0 8px; }
.card { border: 1px solid var(--line); border-radius: 8px; padding: 10px 14px; }
.card b { display: block; font-size: 22px; font-variant-numeric: tabular-nums; }
.card span { color: var(--soft); font-size: 13px; }
.card.bad b { color: var(--bad); }
table { border-collapse: collapse; width: 100%; font-size: 14px; }
th { text-align: left; color: var(--soft); font-weight: 500; }
th, td { padding: 5px 10px 5px 0; border-bottom: 1px solid var(--line); vertical-align: top; }
td.n, th.n { text-align: right; font-variant-numeric: tabular-nums; }
td.good { color: var(--good); white-space: nowrap; } td.bad { color: var(--bad); }
td.none { color: var(--soft); }
tr.broken { background: color-mix(in srgb, var(--bad) 10%, transparent); }
pre, code { font: 13px/1.5 ui-monospace, "DejaVu Sans Mono", monospace; }
pre { background: var(--back); border: 1px solid var(--line); border-radius: 8px; margin: 8px 0;
  padding: 10px 14px; overflow-x: auto; }
.wide { overflow-x: auto; }
ul.problems { margin: 6px 0; padding-left: 20px; color: var(--bad); }
svg { width: 100%; min-width: 760px; height: auto; display: block; margin-top: 6px; }
svg text { fill: var(--soft); font: 12px system-ui, sans-serif; }
svg .name { fill: var(--ink); font-weight: 600; font-size: 14px; }
svg .fault { fill: var(--fault); font-weight: 600; }
.key i { display: inline-block; width: 12px; height: 12px; border-radius: 3px;
  margin: 0 5px 0 14px; vertical-align: -1px; }
.key { color: var(--soft); font-size: 13px; } a { color: var(--ack); }
summary { cursor: pointer; color: var(--soft); }
"""


_PROBLEMS_SHOWN = 5
_OPERATIONS = {APPEND: "append to acknowledgement", DELIVER: "append to delivery"}


def report_page(outcomes: Sequence[ScenarioOutcome]) -> str:
    """Return the HTML page of one or more outcomes."""
    good = sum(outcome.is_good for outcome in outcomes)
    title = outcomes[0].title if len(outcomes) == 1 else "Outage scenarios"
    parts = [
        "<!doctype html>",
        '<html lang="en"><head><meta charset="utf-8">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f"<title>{escape(title)}</title><style>{_STYLE}</style></head><body><main>",
    ]
    if len(outcomes) != 1:
        parts.append(f"<h1>Outage scenarios</h1><p>{good} of {len(outcomes)} runs passed.</p>")
        parts += _summary(outcomes)
    for number, outcome in enumerate(outcomes):
        parts += _section(outcome, number)
    parts.append("</main></body></html>")
    return "\n".join(parts) + "\n"


def _summary(outcomes: Sequence[ScenarioOutcome]) -> Iterator[str]:
    yield "<section><table><tr><th>scenario</th><th>world</th><th>seed</th><th>verdict</th>"
    yield '<th class="n">acknowledged</th><th class="n">lost</th><th class="n">duplicated</th>'
    yield '<th class="n">longest time without appends</th><th class="n">resumed after</th></tr>'
    for number, outcome in enumerate(outcomes):
        seed = str(outcome.seed) if outcome.world == "sim" else ""
        yield (
            f'<tr><td><a href="#run{number}">{escape(outcome.scenario)}</a></td>'
            f"<td>{escape(outcome.world)}</td><td>{seed}</td>{_verdict_cell(outcome.is_good)}"
            f'<td class="n">{outcome.acked:,}</td><td class="n">{outcome.lost}</td>'
            f'<td class="n">{outcome.doubled}</td><td class="n">{_ms(outcome.unavailable_ms)}</td>'
            f'<td class="n">{_ms(outcome.resume_ms)}</td></tr>'
        )
    yield "</table></section>"


def _section(outcome: ScenarioOutcome, number: int) -> Iterator[str]:
    verdict = "good" if outcome.is_good else "bad"
    words = "passed" if outcome.is_good else "failed"
    world = "simulator" if outcome.world == "sim" else "real processes"
    seed = f'<span class="tag">seed {outcome.seed}</span>' if outcome.world == "sim" else ""
    yield f'<section id="run{number}"><div class="head"><h2>{escape(outcome.title)}</h2>'
    yield f'<span class="badge {verdict}">{words}</span>'
    yield f'<span class="tag">{world}</span>{seed}</div>'
    if outcome.problems:
        shown = outcome.problems[:_PROBLEMS_SHOWN]
        items = "".join(f"<li>{escape(problem)}</li>" for problem in shown)
        more = len(outcome.problems) - len(shown)
        items += f"<li>and {more} more, below</li>" if more else ""
        yield f'<ul class="problems">{items}</ul>'
    yield f"<p>{escape(outcome.about)}</p>"
    yield from _cards(outcome)
    yield "<h3>Timeline by region</h3>"
    yield (
        '<div class="key"><i style="background:var(--ack)"></i>acknowledged'
        '<i style="background:var(--deliver)"></i>delivered to readers'
        '<i style="background:var(--fault);opacity:.5"></i>fault that affects this region'
        "; lines: median latency of appends, and from append to delivery</div>"
    )
    yield timeline(outcome)
    yield from _checks(outcome)
    yield from _levels(outcome.levels)
    yield from _invariants(outcome.invariants)
    yield from _replay(outcome)
    yield "</section>"


def _cards(outcome: ScenarioOutcome) -> Iterator[str]:
    cards = [
        (f"{outcome.acked:,}", "records acknowledged", False),
        (str(outcome.lost), "acknowledged records lost", outcome.lost > 0),
        (str(outcome.doubled), "records delivered at two positions", outcome.doubled > 0),
        (f"{outcome.unknown:,}", "appends with an unknown outcome", False),
        (_ms(outcome.unavailable_ms), "longest time without an acknowledged append", False),
        (
            _ms(outcome.resume_ms),
            "from the last fault until appends resumed",
            outcome.resume_ms is None,
        ),
    ]
    for level in outcome.levels:
        if (level.operation, level.region) == (APPEND, EVERYWHERE):
            cards.append((_ms(level.p99_ms), "p99 from append to acknowledgement", False))
    if outcome.whole_ms is not None:
        cards.append((_ms(outcome.whole_ms), "from the last fault until all copies existed", False))
    yield '<div class="cards">'
    for value, text, is_bad in cards:
        yield f'<div class="card{" bad" if is_bad else ""}"><b>{value}</b><span>{text}</span></div>'
    yield "</div>"


def _checks(outcome: ScenarioOutcome) -> Iterator[str]:
    yield "<h3>Expectations</h3>"
    yield '<table><tr><th>expectation</th><th class="n">expected</th><th class="n">measured</th>'
    yield "<th>verdict</th></tr>"
    for check in outcome.checks:
        yield (
            f'<tr><td>{escape(check.text)}</td><td class="n">{escape(check.wanted)}</td>'
            f'<td class="n">{escape(check.found)}</td>{_verdict_cell(check.held)}</tr>'
        )
    yield "</table>"
    if outcome.broke:
        yield f"<pre>{escape(outcome.broke)}</pre>"


def _levels(levels: Sequence[ServiceLevel]) -> Iterator[str]:
    yield "<h3>Service levels</h3>"
    yield (
        '<p class="soft">Only the appends of the load are counted here. The number of acknowledged '
        "records above also has those that are appended after the load, to find the end.</p>"
    )
    yield '<table><tr><th>operation</th><th>region</th><th class="n">records</th>'
    yield '<th class="n">p50</th><th class="n">p99</th><th class="n">longest time without</th></tr>'
    for level in levels:
        region = "all" if level.region == EVERYWHERE else level.region
        yield (
            f"<tr><td>{escape(_OPERATIONS.get(level.operation, level.operation))}</td>"
            f'<td>{escape(region)}</td><td class="n">{level.count:,}</td>'
            f'<td class="n">{_ms(level.p50_ms)}</td><td class="n">{_ms(level.p99_ms)}</td>'
            f'<td class="n">{_ms(level.unavailable_ms)}</td></tr>'
        )
    yield "</table>"


def _invariants(invariants: Sequence[Invariant]) -> Iterator[str]:
    broken = [invariant for invariant in invariants if invariant.violations]
    judged = sum(invariant.is_judged for invariant in invariants)
    yield (
        f"<h3>Invariants</h3><p>{judged} checked, {len(broken)} violated; "
        f"{len(invariants) - judged} not checked, because this world cannot observe them.</p>"
    )
    yield f"<details{' open' if broken else ''}><summary>all invariants</summary><table>"
    for invariant in sorted(
        invariants, key=lambda invariant: (not invariant.violations, not invariant.is_judged)
    ):
        cell = _verdict_cell(not invariant.violations)
        if not invariant.is_judged:
            cell = '<td class="none">not checked</td>'
        violations = "".join(f"<br><code>{escape(text)}</code>" for text in invariant.violations)
        row = ' class="broken"' if invariant.violations else ""
        text = f"{escape(invariant.text)}{violations}"
        yield f"<tr{row}><td>{escape(invariant.id)}</td><td>{text}</td>{cell}</tr>"
    yield "</table></details>"


def _replay(outcome: ScenarioOutcome) -> Iterator[str]:
    yield f"<h3>How to play this run again</h3><pre>{escape(outcome.command)}</pre>"
    digest = f" Fingerprint: {outcome.digest}." if outcome.digest else ""
    yield (
        f'<p class="soft">Wide-area network: {escape(outcome.wan)}. '
        f"Run time {outcome.real_s:.1f} s."
        f"{escape(digest)}</p>"
    )
    if outcome.lines:
        lines = escape("\n".join(outcome.lines))
        yield f"<details><summary>log of the run</summary><pre>{lines}</pre></details>"


def _verdict_cell(held: bool) -> str:
    return '<td class="good">passed</td>' if held else '<td class="bad">failed</td>'


def _ms(value: float | None) -> str:
    if value is None:
        return "never"
    return show_ms(value)
