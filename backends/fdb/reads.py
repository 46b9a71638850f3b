"""Asynchronous reads in one transaction of FoundationDB."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, NamedTuple

from .bindings import WANT_ALL, FdbFuture, FdbTransaction
from .keys import FdbKeyRange, key_after


class FdbPage(NamedTuple):
    """A part of a range; ``has_more`` is True if the range may hold further pairs."""

    pairs: list[tuple[bytes, bytes]]
    has_more: bool


class Reads:
    """Asynchronous reads in one transaction, and the transaction itself for writes."""

    def __init__(
        self,
        transaction: FdbTransaction,
        wait: Callable[[FdbFuture], Awaitable[Any]],
        selector: Callable[[bytes], object],
        *,
        is_old: bool = False,
    ) -> None:
        self._wait = wait
        self._selector = selector
        self.transaction = transaction
        self.is_old = is_old
        """True if the reads may lack writes that were acknowledged before they began."""

    async def get(self, keys: Sequence[bytes]) -> list[bytes | None]:
        """Return the values of keys, requested concurrently."""
        values, _ = await self.get_all(keys, {})
        return values

    async def range(self, keys: FdbKeyRange, limit: int = 0) -> list[tuple[bytes, bytes]]:
        """Return at most ``limit`` pairs of a range, in order (0: all)."""
        _, (pairs,) = await self.get_all((), {keys: limit})
        return pairs

    async def get_all(
        self, keys: Sequence[bytes], ranges: Mapping[FdbKeyRange, int]
    ) -> tuple[list[bytes | None], list[list[tuple[bytes, bytes]]]]:
        """Return the values of keys and the pairs of ranges, all requested concurrently.

        Each range has a limit, as for ``range``.
        """
        futures = [self.transaction.get(key) for key in keys]
        pages = [self.request_page(each, limit, 1) for each, limit in ranges.items()]
        values = [(await self._wait(future)).value for future in futures]
        found = [
            await self._rest(page, each.end, limit)
            for page, (each, limit) in zip(pages, ranges.items(), strict=True)
        ]
        return values, found

    def request_page(self, keys: FdbKeyRange, limit: int, number: int) -> FdbFuture:
        """Request the first pairs of a range, as many as one response holds; see ``page_of``.

        ``limit`` as for ``range``; ``number`` counts the pages of one range from 1, and later pages
        may be larger.
        """
        begin, end = self._selector(keys.start), self._selector(keys.end)
        return self.transaction._get_range(begin, end, limit, WANT_ALL, number, False)

    async def page_of(self, future: FdbFuture) -> FdbPage:
        """Return the page that was requested."""
        found, count, more = await self._wait(future)
        pairs = [(bytes(pair.key), bytes(pair.value)) for pair in found]
        return FdbPage(pairs, has_more=bool(count and more))

    async def _rest(self, first: FdbFuture, end: bytes, limit: int) -> list[tuple[bytes, bytes]]:
        """Return the pairs of a range whose first page was requested."""
        page = await self.page_of(first)
        pairs, number = page.pairs, 1
        while page.has_more and not (limit and len(pairs) >= limit):
            number += 1
            remaining = FdbKeyRange(key_after(pairs[-1][0]), end)
            missing = limit - len(pairs) if limit else 0
            page = await self.page_of(self.request_page(remaining, missing, number))
            pairs += page.pairs
        return pairs
