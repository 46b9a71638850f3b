"""Options of ``LocalServer`` that cannot be combined; the integration tests start it."""

from pathlib import Path

import pytest

from rhumbline.chaos.local_server import LocalServer
from rhumbline.core.protocol.errors import InvalidArgumentError


def test_grants_need_callers_that_are_known(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgumentError, match="needs tls or tokens"):
        LocalServer(tmp_path, tls=False, access_control=True)


def test_a_server_without_tokens_or_grants_has_none(tmp_path: Path) -> None:
    server = LocalServer(tmp_path)
    with pytest.raises(InvalidArgumentError, match="has no tokens"):
        server.token("app")
    with pytest.raises(InvalidArgumentError, match="has no grants"):
        server.grant("app", ["read"], "cluster")
    assert LocalServer(tmp_path, tls=False).client_tls() is None
