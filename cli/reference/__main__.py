"""Runs ``python -m rhumbline.cli.reference FOLDER``: writes the reference pages into FOLDER."""

import sys
from pathlib import Path

from .reference_pages import write_pages

if __name__ == "__main__":
    write_pages(Path(sys.argv[1]))
