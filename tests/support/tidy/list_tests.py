"""A pytest plugin that prints each collected test with the real servers that it uses."""

import pytest


def pytest_collection_finish(session: pytest.Session) -> None:
    """Print a line for each test that is left after `-m`: its file, then its servers."""
    for item in session.items:
        servers = sorted({mark.args[0] for mark in item.iter_markers("needs_server")})
        print("collected", item.nodeid.split("::")[0], *servers)
