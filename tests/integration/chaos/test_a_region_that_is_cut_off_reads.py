"""The short form of `make cut-off-region`, with real processes in networks of their own."""

from pathlib import Path

import pytest

from rhumbline.chaos.lab.partition.cut_off_region import REGIONS, CutOffRegion
from rhumbline.chaos.lab.partition.region_networks import RegionNetworks
from rhumbline.chaos.lab.partition.time_line import draw_time_line
from rhumbline.core.protocol.errors import ConfigurationError
from rhumbline.tests.support.servers import metadata_servers

CUT_S = 8.0


@pytest.mark.long
@pytest.mark.timeout(180)
@pytest.mark.needs_server("etcd")
async def test_readers_that_start_during_the_cut_get_what_has_copies_there(tmp_path: Path) -> None:
    metadata_servers.etcd()  # installs it
    try:
        networks = RegionNetworks(REGIONS)
    except ConfigurationError as error:  # needs root, and a kernel that permits it
        pytest.skip(str(error))
    region = CutOffRegion(networks, tmp_path)
    try:
        result = await region.play(CUT_S, read_every_s=5.0)
    finally:
        region.close()
        networks.close()
    assert result.faults() == []
    during = [read for read in result.reads if result.cut_s < read["began"] < result.healed_s]
    assert min(read["last"] for read in during) > 50
    local = [number for at, number in result.local_acked if result.cut_s < at < result.healed_s]
    assert len(local) > CUT_S, "the namespace of the region is written during the cut"
    circles = len(result.reads) + len(result.local_reads)
    assert draw_time_line(result).count("<circle") == circles
