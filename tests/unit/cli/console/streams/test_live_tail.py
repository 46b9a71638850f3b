"""A live tail keeps little of what it reads, and an error that ends it is shown and logged."""

from typing import cast

import pytest

from rhumbline.cli.console.streams.live_tail import LiveTail
from rhumbline.core.log.namespace import Namespace
from rhumbline.tests.support.fakes.jumping_loop import run_jumping
from rhumbline.tests.support.fakes.recorded_log import recorded_log

pytestmark = pytest.mark.run_by(runner=run_jumping)


class _Broken:
    """A namespace whose readers fail with an error that nobody expects."""

    async def open_reader(self, *_: object, **__: object) -> object:
        raise ValueError("bad")


async def test_an_unexpected_error_is_shown_and_logged() -> None:
    """The tail ended without a word, and the page asked for it again without a pause."""
    tail = LiveTail(cast(Namespace, _Broken()), "orders", after=None, wanted="")
    with recorded_log() as log:
        found = [event async for event in tail.events()]
    assert [event.document["error"] for event in found] == ["ValueError: bad"]
    assert log.fields("live tail failed") == [{"stream": "orders"}]
