"""Arguments that are no start position are refused with a message that says what is."""

import pytest

from rhumbline.core.protocol.dlsn import Dlsn
from rhumbline.core.protocol.errors import InvalidArgumentError
from rhumbline.core.protocol.start import EARLIEST, LATEST, AtSequenceId, AtTxid, Start, check_start


@pytest.mark.parametrize("start", [EARLIEST, LATEST, Dlsn(1, 0, 0), AtTxid(7), AtSequenceId(0)])
def test_positions_are_returned(start: Start) -> None:
    assert check_start(start) is start


@pytest.mark.parametrize(
    ("start", "message"),
    [
        ("1:0:0", r"Dlsn\.parse\('1:0:0'\)"),
        ("earliest", "use EARLIEST"),
        (None, "None is not EARLIEST"),
        (5, "5 is not EARLIEST"),
        ((1, 0, 0), "is not EARLIEST"),
        (AtTxid("7"), "must consist of int"),  # type: ignore[arg-type]
        (Dlsn(1, None, 0), "must consist of int"),  # type: ignore[arg-type]
    ],
)
def test_other_values_are_refused(start: object, message: str) -> None:
    with pytest.raises(InvalidArgumentError, match=message):
        check_start(start)


def test_a_long_value_is_cut_in_the_message() -> None:
    with pytest.raises(InvalidArgumentError) as raised:
        check_start("x" * 1000)
    assert len(str(raised.value)) < 300
