"""The error tree: codes are unique, and each class says what happened and what to do."""

import inspect
from typing import get_type_hints

import pytest

from rhumbline.core.protocol.dlsn import Dlsn
from rhumbline.core.protocol.errors import RhumblineError, TruncatedError, error_classes

CLASSES = sorted(error_classes().items())


def test_error_codes_are_unique() -> None:
    assert error_classes()["stream-lost"].refresh


@pytest.mark.parametrize(("code", "cls"), CLASSES, ids=[code for code, _ in CLASSES])
def test_every_error_says_what_happened_and_what_to_do(
    code: str, cls: type[RhumblineError]
) -> None:
    happened, _, advice = inspect.cleandoc(cls.__doc__ or "").partition("\n\n")
    assert happened.endswith(".") and "\n" not in happened
    assert advice.endswith(".")


def test_first_active_of_a_truncation_is_typed_as_a_position() -> None:
    """It was typed ``object``, so that every caller had to narrow it."""
    hints = get_type_hints(TruncatedError.__init__, {"Dlsn": Dlsn})
    assert hints["first_active"] == Dlsn | None
