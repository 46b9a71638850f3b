"""Runs ``python -m rhumbline.cli.reference PAGES DASHBOARDS``: writes into these two folders."""

import sys
from pathlib import Path

from .dashboards.grafana import write_dashboards
from .reference_pages import write_pages

if __name__ == "__main__":
    write_pages(Path(sys.argv[1]))
    write_dashboards(Path(sys.argv[2]))
