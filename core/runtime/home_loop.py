"""The event loop in which an object was opened, and the check that it is used in no other."""

import asyncio

from ..protocol.errors import InvalidArgumentError


class HomeLoop:
    """The event loop that runs now, to which an object belongs from here on."""

    __slots__ = ("_loop",)

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()

    def check(self, what: str) -> None:
        """Raise InvalidArgumentError if another event loop runs in this thread.

        Without a running loop it passes, because nothing can be awaited then.
        """
        try:
            running = asyncio.get_running_loop()
        except RuntimeError:
            return
        if running is not self._loop:
            raise InvalidArgumentError(
                f"{what} was opened in another event loop, use it there: open one per event loop, "
                "e.g. per asyncio.run()"
            )
