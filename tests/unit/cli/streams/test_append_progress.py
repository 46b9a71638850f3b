"""Appending a large file shows how much of it has been acknowledged."""

from collections.abc import Generator
from typing import Any, NamedTuple

import pytest

from rhumbline.cli.streams import appending
from rhumbline.core.protocol.dlsn import Dlsn


class Result(NamedTuple):
    record_count: int
    first: Dlsn
    last: Dlsn


class Ticket:
    is_done = True

    def __await__(self) -> Generator[None, None, Result]:
        yield from ()
        return Result(1, Dlsn(1, 0, 0), Dlsn(1, 0, 0))


class Writer:
    def append_many(self, records: list[bytes], txids: list[int] | None) -> Ticket:
        return Ticket()

    async def room(self) -> None:
        return


async def test_progress_names_the_acknowledged_bytes_and_the_size_of_the_input(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    shown: list[tuple[str, float, float | None]] = []

    class Bar:
        def show(self, text: str, done: float = 0, total: float | None = None) -> None:
            shown.append((text, done, total))

        def clear(self) -> None:
            shown.append(("", 0, None))

    monkeypatch.setattr(appending, "ProgressBar", Bar)
    monkeypatch.setattr(appending, "_PROGRESS_SECONDS", -1)
    writer: Any = Writer()
    appender = appending._Appender(writer, txid=None, verbose=False, input_bytes=4 << 20)
    for _ in range(4):
        await appender.append([b"x" * (1 << 20)])
    await appender.finish()
    assert shown == [
        *((f"{n} records, {n}.0 MiB appended", n << 20, 4 << 20) for n in range(1, 5)),
        ("", 0, None),
    ]
    assert appender.tally.bytes == 4 << 20
