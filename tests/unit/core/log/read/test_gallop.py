"""The search for the first number of a range is compared with trying all of them."""

from math import log2

import pytest

from rhumbline.core.log.read.gallop import Gallop


@pytest.mark.parametrize("length", [0, 1, 2, 3, 7, 8, 9, 100, 1000])
def test_gallop_finds_what_trying_all_finds(length: int) -> None:
    for first in range(0, length + 1, max(1, length // 50)):
        search, probes = Gallop(5, 5 + length), 0
        while (number := search.probe) is not None:
            assert 5 <= number < 5 + length
            search.answer(holds=number >= 5 + first)
            probes += 1
        assert search.found == 5 + first
        assert probes <= 2 * log2(first + 1) + 2, "near the start it is quick"
