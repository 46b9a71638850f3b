"""The guide for three regions, followed from its first step in network namespaces."""

from pathlib import Path

import pytest

from rhumbline.chaos.lab.guide.__main__ import follow_guide
from rhumbline.core.protocol.errors import ConfigurationError
from rhumbline.tests.support.servers import metadata_servers


@pytest.mark.long
@pytest.mark.timeout(900)
@pytest.mark.needs_server("etcd")
def test_each_command_of_the_guide_succeeds(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    metadata_servers.etcd()  # installs it
    try:
        is_good = follow_guide(tmp_path / "hosts")
    except ConfigurationError as error:  # needs root, and a kernel that permits it
        pytest.skip(str(error))
    assert is_good, capfd.readouterr().out[-5000:]
