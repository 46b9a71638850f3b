"""Options that make a command wait for something: ``--wait`` and ``--timeout``."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

import click

from ..client.units import parse_ms, show_ms
from ..core.protocol.errors import DeadlineExceededError
from .options import Command

POLL_S = 0.1
"""Pause between two checks."""

T = TypeVar("T")


def timeout_option(command: Command) -> Command:
    """Add ``--timeout``, which is passed on as ``timeout_ms``."""
    return click.option(
        "--timeout",
        "timeout_ms",
        default="60s",
        show_default=True,
        callback=lambda _context, _option, text: parse_ms(text),
        help="Time after which waiting fails.",
    )(command)


def wait_count_options(things: str) -> Callable[[Command], Command]:
    """Return a decorator that adds ``--wait N`` and ``--timeout`` to a command that lists things.

    N is passed on as ``wait_count``.
    """

    def decorate(command: Command) -> Command:
        return click.option(
            "--wait",
            "wait_count",
            type=click.IntRange(min=1),
            metavar="N",
            help=f"Wait until there are at least N {things}, then list them.",
        )(timeout_option(command))

    return decorate


async def wait_until(
    check: Callable[[], Awaitable[T]],
    is_done: Callable[[T], bool],
    *,
    timeout_ms: int,
    describe: Callable[[T], str],
) -> T:
    """Repeat ``check`` until ``is_done`` holds for its result, and return that result.

    Raises DeadlineExceededError with ``describe`` of the last result after ``timeout_ms``.
    """
    loop = asyncio.get_running_loop()
    deadline = loop.time() + timeout_ms / 1000
    while True:
        found = await check()
        if is_done(found):
            return found
        if loop.time() >= deadline:
            raise DeadlineExceededError(f"after {show_ms(timeout_ms)}: {describe(found)}")
        await asyncio.sleep(POLL_S)


async def list_when(
    list_rows: Callable[[], Awaitable[list[T]]], count: int | None, *, timeout_ms: int, things: str
) -> list[T]:
    """Return the rows of ``list_rows`` as soon as there are ``count`` of them (None: now)."""
    wanted = count or 0
    return await wait_until(
        list_rows,
        lambda rows: len(rows) >= wanted,
        timeout_ms=timeout_ms,
        describe=lambda rows: f"{len(rows)} of {wanted} {things}",
    )
