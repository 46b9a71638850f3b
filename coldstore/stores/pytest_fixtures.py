"""Fixtures that run the conformance checks on a cold store, for pytest.

The checks are imported only if a test uses ``rhumbline_cold_check``.
"""

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from ...core.runtime.cold_store import ColdStore

_CHECK = "rhumbline_cold_check_name"


def parametrize_cold_checks(metafunc: pytest.Metafunc) -> None:
    """Parametrize each test that uses ``rhumbline_cold_check`` by the checks of the kit."""
    if _CHECK in metafunc.fixturenames:
        from .conformance import CHECKS

        metafunc.parametrize(_CHECK, list(CHECKS))


@pytest.fixture
def rhumbline_cold_store() -> "Callable[[], ColdStore] | str":
    """Override this fixture: return the URI of an empty cold store, or a function that opens it."""
    raise NotImplementedError("override the fixture rhumbline_cold_store: return a URI")


@pytest.fixture
def rhumbline_cold_check(
    rhumbline_cold_store: "Callable[[], ColdStore] | str", rhumbline_cold_check_name: str
) -> Callable[[], None]:
    """Return a function that runs one check on ``rhumbline_cold_store``.

    A test that uses this fixture runs once for each check.
    """
    from .conformance import CHECKS
    from .open_store import open_cold_store

    async def check() -> None:
        target = rhumbline_cold_store
        store = open_cold_store(target) if isinstance(target, str) else target()
        try:
            await CHECKS[rhumbline_cold_check_name](store)
        finally:
            await store.close()

    return lambda: asyncio.run(check())
