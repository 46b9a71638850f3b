"""Each anomaly is planted in a clean history, and found; the clean history has none."""

from dataclasses import replace

import pytest

from rhumbline.chaos.kafka.anomalies import Anomaly, find_anomalies
from rhumbline.chaos.kafka.operations import (
    CommitOffset,
    KeyPoll,
    ListCommitted,
    Offset,
    Operation,
    Send,
    SendOutcome,
)

START = (1, 0, 0)


def send(at: float, value: int, offset: Offset | None, *, client: int = 1) -> Send:
    outcome = SendOutcome.UNKNOWN if offset is None else SendOutcome.OK
    return Send(
        client=client, called=at, returned=at + 0.5, key="k", value=value, outcome=outcome,
        offset=offset,
    )  # fmt: skip


def poll(
    at: float, start: Offset, *messages: tuple[Offset, int], client: int = 2, is_final: bool = False
) -> KeyPoll:
    return KeyPoll(
        client=client, called=at, returned=at + 0.5, key="k", assignment=1, start=start,
        messages=messages, is_final=is_final,
    )  # fmt: skip


def commit(at: float, offset: Offset, *, is_confirmed: bool = True) -> CommitOffset:
    return CommitOffset(
        client=2, called=at, returned=at + 0.5, key="k", offset=offset, is_confirmed=is_confirmed
    )


def listed(at: float, offset: Offset, *, client: int = 3) -> ListCommitted:
    return ListCommitted(client=client, called=at, returned=at + 0.5, key="k", offset=offset)


A, B, C, D = ((1, 0, 0), 10), ((1, 0, 1), 11), ((1, 4, 0), 12), ((2, 0, 0), 13)
SENDS = [send(1, 10, A[0]), send(2, 11, B[0]), send(3, 12, None), send(4, 13, D[0], client=3)]
POLLS = [poll(5, START, A, B), poll(6, (1, 0, 2), C), poll(7, (1, 4, 1)), poll(8, (1, 4, 1), D)]
COMMITS: list[Operation] = [
    listed(4, START),
    commit(5.5, (1, 0, 2)),
    listed(6.5, (1, 0, 2)),
    commit(8.5, (2, 0, 1), is_confirmed=False),
    listed(9.5, (2, 0, 1)),
]
FINAL = poll(20, START, A, B, C, D, client=9, is_final=True)
CLEAN: list[Operation] = [*SENDS, *POLLS, *COMMITS, FINAL]


def found_in(operations: list[Operation]) -> set[Anomaly]:
    return set(find_anomalies(operations, START).anomalies)


def with_change(before: Operation, *after: Operation) -> list[Operation]:
    assert before in CLEAN
    return [new for one in CLEAN for new in (after if one is before else (one,))]


def test_a_clean_history_has_no_anomaly() -> None:
    report = find_anomalies(CLEAN, START)
    assert report.is_clean, report.anomalies
    assert (report.messages, report.polled) == (4, 8)
    assert report.operations["Send"] == 4
    assert report.operations["Send unknown"] == 1


def test_values_of_an_unknown_outcome_may_be_missing() -> None:
    operations = [*CLEAN, send(9, 99, None)]
    assert found_in(operations) == set()


def test_a_new_assignment_may_go_back() -> None:
    again = replace(poll(9, (1, 0, 2), C, D), assignment=2)
    assert found_in([*CLEAN, again]) == set()


def test_keys_are_judged_apart() -> None:
    other = [replace(one, key="other") for one in CLEAN]
    assert found_in([*CLEAN, *other]) == set()


def test_concurrent_sends_may_get_offsets_in_any_order() -> None:
    early = send(1.8, 14, (1, 0, 3))  # 11 is sent before 14 has returned, below it
    final = replace(FINAL, messages=(A, B, ((1, 0, 3), 14), C, D))
    polls = [poll(5, START, A, B, ((1, 0, 3), 14), C, D)]
    operations: list[Operation] = [*SENDS, early, *polls, *COMMITS, final]
    assert found_in(operations) == set()


PLANTED: list[tuple[Anomaly, list[Operation]]] = [
    (Anomaly.LOST_WRITE, [*CLEAN, send(9, 99, (1, 0, 7))]),
    (Anomaly.UNSEEN_WRITE, [*CLEAN, send(9, 99, (3, 0, 0))]),
    (Anomaly.UNSEEN_WRITE, with_change(FINAL)),
    (
        Anomaly.ABORTED_READ,
        with_change(SENDS[2], replace(SENDS[2], outcome=SendOutcome.FAILED)),
    ),
    (Anomaly.ABORTED_READ, with_change(SENDS[2])),
    (Anomaly.DUPLICATE, with_change(FINAL, replace(FINAL, messages=(A, B, C, D, ((2, 0, 1), 10))))),
    (Anomaly.INCONSISTENT_OFFSET, [*CLEAN, send(9, 99, B[0])]),
    (Anomaly.INTERNAL_NONMONOTONIC_POLL, with_change(POLLS[0], poll(5, START, A, B, B))),
    (Anomaly.INTERNAL_NONMONOTONIC_POLL, with_change(POLLS[0], poll(5, B[0], A, B))),
    (Anomaly.EXTERNAL_NONMONOTONIC_POLL, with_change(POLLS[1], poll(6, B[0], B, C))),
    (Anomaly.INTERNAL_POLL_SKIP, with_change(FINAL, replace(FINAL, messages=(A, C, D)))),
    (Anomaly.INTERNAL_POLL_SKIP, with_change(FINAL, replace(FINAL, messages=(B, C, D)))),
    (Anomaly.EXTERNAL_POLL_SKIP, with_change(POLLS[1], poll(6, C[0]))),
    (Anomaly.NONMONOTONIC_SEND, [*CLEAN, send(9, 10, (1, 0, 0)), send(9.6, 14, (1, 0, 0))]),
    (Anomaly.COMMITTED_BACK, [*CLEAN, listed(7.5, START)]),
    (Anomaly.COMMITTED_BACK, [*CLEAN, listed(11, (1, 0, 2))]),
    (Anomaly.COMMITTED_BY_NOBODY, [*CLEAN, listed(11, (2, 0, 7))]),
]


@pytest.mark.parametrize(("anomaly", "operations"), PLANTED, ids=[str(one) for one, _ in PLANTED])
def test_each_anomaly_is_found(anomaly: Anomaly, operations: list[Operation]) -> None:
    report = find_anomalies(operations, START)
    assert anomaly in report.anomalies
    assert report.anomalies[anomaly][0].startswith("k: ")


def test_every_anomaly_is_planted() -> None:
    assert {anomaly for anomaly, _ in PLANTED} == set(Anomaly)
