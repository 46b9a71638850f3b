"""Operations survive the file in which clients record them."""

from typing import Any

from rhumbline.chaos.kafka.operations import (
    CommitOffset,
    KeyPoll,
    ListCommitted,
    Operation,
    Send,
    SendOutcome,
    decode,
    encode,
)


def test_operations_round_trip() -> None:
    common: dict[str, Any] = {"client": 1, "called": 0.5, "returned": 1.5, "key": "k"}
    operations: list[Operation] = [
        Send(**common, value=7, outcome=SendOutcome.OK, offset=(1, 2, 3)),
        Send(**common, value=8, outcome=SendOutcome.UNKNOWN),
        KeyPoll(**common, assignment=2, start=(1, 0, 0), messages=(((1, 2, 3), 7), ((1, 2, 4), 8))),
        KeyPoll(**common, assignment=2, start=(1, 2, 5), messages=(), is_final=True),
        CommitOffset(**common, offset=(1, 2, 5), is_confirmed=False),
        ListCommitted(**common, offset=(1, 0, 0)),
    ]
    assert decode(map(encode, operations)) == operations
