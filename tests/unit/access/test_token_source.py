from pathlib import Path

import pytest

from rhumbline.access.token_source import token_source
from rhumbline.core.protocol.errors import ConfigurationError


def test_a_token_is_given_or_read_from_a_file_that_may_change(tmp_path: Path) -> None:
    assert token_source(None) is None
    given = token_source("abc")
    assert given is not None
    assert given.current() == "abc"
    file = tmp_path / "token"
    file.write_text("first\n")
    read = token_source(None, str(file))
    assert read is not None
    assert read.current() == "first"
    file.write_text("the second\n")
    assert read.current() == "the second"
    assert "second" not in repr(read)
    with pytest.raises(ConfigurationError, match="nowhere"):
        token_source(None, str(tmp_path / "nowhere"))
