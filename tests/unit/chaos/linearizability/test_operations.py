"""The history of a stream becomes operations that Porcupine can judge."""

from rhumbline.chaos.checker.history import AppendOutcome, History, RecordedAppend
from rhumbline.chaos.linearizability.operations import operations_of
from rhumbline.core.protocol.dlsn import Dlsn


class Clock:
    """Virtual milliseconds that the test sets."""

    ms = 0.0


def begun(history: History, number: int) -> RecordedAppend:
    return history.begin_append(1, number, b"")


def test_an_append_lasts_from_its_call_to_its_acknowledgement() -> None:
    clock = Clock()
    history = History(lambda: clock.ms)
    append = begun(history, 0)
    clock.ms = 2.5
    history.finish_append(append, AppendOutcome.OK, dlsn=Dlsn(1, 0, 0))
    clock.ms = 9.0
    [operation] = operations_of(history)
    assert operation["kind"] == "append"
    assert (operation["called"], operation["returned"]) == (0, 2_500_000)
    token = append.token.decode()
    assert operation["records"] == [{"at": [1, 0, 0], "token": token, "after": None}]


def test_an_append_of_unknown_outcome_may_take_effect_until_the_end_if_it_was_read() -> None:
    clock = Clock()
    history = History(lambda: clock.ms)
    read_later, never_read = begun(history, 0), begun(history, 1)
    for append in (read_later, never_read):
        history.finish_append(append, AppendOutcome.UNKNOWN)
    read = history.begin_read("reader", None)
    clock.ms = 5.0
    history.add_record(read, Dlsn(1, 3, 0), read_later.payload)
    clock.ms = 9.0
    append_, read_ = operations_of(history)
    assert append_["returned"] == 9_000_000
    assert append_["records"] == [{**read_["records"][0], "after": None}]


def test_a_refused_append_is_left_out_even_if_it_was_read() -> None:
    history = History(lambda: 0.0)
    append = begun(history, 0)
    history.finish_append(append, AppendOutcome.FAILED)
    history.add_record(history.begin_read("reader", None), Dlsn(1, 0, 0), append.payload)
    assert [operation["kind"] for operation in operations_of(history)] == ["read"]


def test_each_read_starts_behind_the_one_before() -> None:
    clock = Clock()
    history = History(lambda: clock.ms)
    read = history.begin_read("reader", Dlsn(1, 2, 0))
    for entry in (2, 5):
        clock.ms += 1.0
        history.add_record(read, Dlsn(1, entry, 0), b"@0001.%06d@" % entry)
    read.is_complete = True
    first, second, end = operations_of(history)
    assert [first["start"], second["start"], end["start"]] == [[1, 2, 0], [1, 2, 1], [1, 5, 1]]
    assert (second["called"], second["returned"]) == (1_000_001, 2_000_000)
    assert end["kind"] == "end"


def test_records_of_an_atomic_batch_are_appended_at_once() -> None:
    history = History(lambda: 0.0)
    for number in range(3):
        append = begun(history, number)
        append.group, append.expected = 7, Dlsn(1, 0, 0)
        history.finish_append(append, AppendOutcome.OK, dlsn=Dlsn(1, 0, number))
    [operation] = operations_of(history)
    assert [record["after"] for record in operation["records"]] == [None, [1, 0, 0], [1, 0, 1]]
    assert operation["expected"] == [1, 0, 0]
