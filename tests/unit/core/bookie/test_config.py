"""Invalid settings are refused with one error that lists all of them."""

import pytest

from rhumbline.core.bookie.config import BookieConfig
from rhumbline.core.protocol.errors import ConfigurationError


def test_all_invalid_settings_are_listed_in_one_error() -> None:
    with pytest.raises(ConfigurationError, match=r"log_file_bytes.*group_count_max.*reserve"):
        BookieConfig(
            log_file_bytes=1, group_count_max=0, reserve_below_bytes=2, read_only_below_bytes=1
        )
