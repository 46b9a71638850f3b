"""A soak test of one bookie: nothing acknowledged is lost, and deleted ledgers free their space.

`make soak-bookie MINUTES=10` sets its duration.
"""

import asyncio
import os
from pathlib import Path
from random import Random

import pytest

from rhumbline.tests.soak.bookie_soak import SETTINGS, SPACE_BYTES_MAX, Soak
from rhumbline.tests.support.processes.process_cluster import ProcessCluster

SECONDS = float(os.environ.get("SOAK_MINUTES", "0.5")) * 60


@pytest.mark.long
@pytest.mark.timeout(SECONDS + 900)
def test_bookie_loses_nothing_and_frees_space_under_kills_and_restarts(tmp_path: Path) -> None:
    with ProcessCluster(tmp_path / "cluster", ("a",), environ=SETTINGS) as cluster:
        report = asyncio.run(Soak(cluster, SECONDS, Random(5)).run())
    print(report)
    assert report.has_everything
    assert report.left_bytes <= SPACE_BYTES_MAX
