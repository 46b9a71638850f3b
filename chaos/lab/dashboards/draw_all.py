"""Draws all dashboards of ``deploy/grafana`` from a Prometheus that runs."""

from collections.abc import Sequence
from pathlib import Path

from .dashboard_picture import Mark, draw_dashboard
from .panel_series import PrometheusRange, read_panels

DASHBOARDS = Path(__file__).parents[3] / "deploy" / "grafana"


def draw_all(source: PrometheusRange, folder: Path, marks: Sequence[Mark] = ()) -> list[str]:
    """Write ``dashboard-NAME.svg`` for each dashboard; return the titles of panels without data.

    Raises OSError if Prometheus does not respond, or refuses a query.
    """
    empty: list[str] = []
    for file in sorted(DASHBOARDS.glob("*.json")):
        title, panels = read_panels(file, source)
        picture = draw_dashboard(title, panels, source.span_s, marks)
        (folder / f"dashboard-{file.stem}.svg").write_text(picture)
        empty += [
            f"{file.stem}: {panel.title}"
            for panel in panels
            if not panel.is_row and not any(line.points for line in panel.lines)
        ]
    return empty
