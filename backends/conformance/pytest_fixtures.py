"""Fixtures that run the conformance kit on a metadata store, for pytest.

The kit is imported only if a test uses ``rhumbline_metadata_check``.
"""

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from .kit import StoreUnderTest

_CHECK = "rhumbline_metadata_check_name"


def parametrize_metadata_checks(metafunc: pytest.Metafunc) -> None:
    """Parametrize each test that uses ``rhumbline_metadata_check`` by the checks of the kit."""
    if _CHECK in metafunc.fixturenames:
        from .kit import all_checks, check_name

        metafunc.parametrize(_CHECK, [check_name(check) for check in all_checks()])


@pytest.fixture
def rhumbline_metadata_store() -> "StoreUnderTest | str":
    """Override this fixture: return the URI of the store to check, or a ``StoreUnderTest``.

    Each check may use a new store, or all of them the same one, one after the other.
    """
    raise NotImplementedError("override the fixture rhumbline_metadata_store: return a URI")


@pytest.fixture
def rhumbline_metadata_check(
    rhumbline_metadata_store: "StoreUnderTest | str", rhumbline_metadata_check_name: str
) -> Callable[[], None]:
    """Return a function that runs one check of the kit on ``rhumbline_metadata_store``.

    A test that uses this fixture runs once for each check.
    """
    from .assertions import Skipped
    from .kit import StoreUnderTest, all_checks, check_name, run_check

    checks = {check_name(check): check for check in all_checks()}
    target = rhumbline_metadata_store
    store = StoreUnderTest.at(target) if isinstance(target, str) else target

    def run() -> None:
        try:
            asyncio.run(run_check(checks[rhumbline_metadata_check_name], store))
        except Skipped as reason:
            pytest.skip(str(reason))

    return run
