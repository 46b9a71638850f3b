"""Tests that the model of FoundationDB's transactions behaves like FoundationDB.

A random program of three interleaved transactions runs on the model, where it must be serializable,
and, if FoundationDB is installed, on a real cluster, where every result must be the same.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple
from uuid import uuid4

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rhumbline.backends.fdb.bindings import WANT_ALL, Bindings, FdbTransaction
from rhumbline.backends.fdb.keys import encode_stamp
from rhumbline.backends.fdb.native import NativeBindings, TlsFiles
from rhumbline.tests.support.fakes.fdb_model import ModelCluster
from rhumbline.tests.support.servers.store_locations import fdb_uri

KEYS = [b"a", b"b", b"c", b"d"]
TRANSACTIONS = 3
TIMEOUT_MS = 10_000
LOCAL = settings(max_examples=300, deadline=None)
REMOTE = settings(max_examples=150, deadline=None)

Outcome = object


class Call(NamedTuple):
    """A call of one of the transactions."""

    transaction: int
    name: str
    key: bytes = b""
    other: bytes = b""


def calls() -> st.SearchStrategy[Call]:
    number = st.integers(0, TRANSACTIONS - 1)
    key, value = st.sampled_from(KEYS), st.sampled_from([b"1", b"2", b""])
    return st.one_of(
        st.builds(Call, number, st.just("get"), key),
        st.builds(Call, number, st.just("range"), key, st.sampled_from([*KEYS, b"e"])),
        st.builds(Call, number, st.just("set"), key, value),
        st.builds(Call, number, st.just("clear"), key),
        st.builds(Call, number, st.just("stamp"), key),
        st.builds(Call, number, st.just("commit")),
    )


PROGRAMS = st.lists(calls(), max_size=25)


def is_readable(call: Call, stamped: set[bytes]) -> bool:
    """Return whether a range is not empty, and holds no key that the transaction has stamped.

    Such keys stay unreadable until the commit, even if they are written again.
    """
    return call.key < call.other and not any(call.key <= each < call.other for each in stamped)


class Program:
    """Runs calls one after the other. Stamps appear in results as the number of their commit."""

    def __init__(self, bindings: Bindings, prefix: bytes) -> None:
        self._bindings = bindings
        self._prefix = prefix
        self._stamps: dict[bytes, int] = {}
        self._open: dict[int, FdbTransaction] = {}
        self._stamped: dict[int, set[bytes]] = {}

    def run(self, program: list[Call]) -> list[Outcome]:
        """Return the result of each call, and of reading everything at the end."""
        ends = [Call(number, "commit") for number in range(TRANSACTIONS)]
        everything = Call(0, "range", KEYS[0], b"e")
        return [self._result(call) for call in (*program, *ends, everything)]

    def _result(self, call: Call) -> Outcome:
        try:
            return self._do(call)
        except self._bindings.error as error:
            self._open.pop(call.transaction, None)
            return f"error {getattr(error, 'code', 0)}"

    def _do(self, call: Call) -> Outcome:
        transaction = self._transaction(call.transaction)
        stamped = self._stamped[call.transaction]
        key = self._prefix + call.key
        match call.name:
            case "get" if call.key not in stamped:  # a stamp is unreadable before its commit
                return ("value", self._readable(transaction.get(key).wait().value))
            case "range" if is_readable(call, stamped):
                return self._range(transaction, key, self._prefix + call.other)
            case "set":
                transaction.set(key, call.other)
            case "clear":
                transaction.clear(key)
            case "stamp":
                transaction.set_versionstamped_value(key, encode_stamp())
                stamped.add(call.key)
            case "commit":
                stamp = transaction.get_versionstamp()
                transaction.commit().wait()
                if stamped:
                    self._stamps[bytes(stamp.wait().value)] = len(self._stamps)
                del self._open[call.transaction]
                return "committed"
        return None

    def _transaction(self, number: int) -> FdbTransaction:
        if number not in self._open:
            self._open[number] = self._bindings.transaction()
            self._open[number].options.set_timeout(TIMEOUT_MS)
            self._stamped[number] = set()
        return self._open[number]

    def _range(self, transaction: FdbTransaction, start: bytes, end: bytes) -> Outcome:
        found: list[tuple[bytes, Outcome]] = []
        page = 1
        while True:
            begin, stop = map(self._bindings.first_at_or_after, (start, end))
            pairs, count, more = transaction._get_range(
                begin, stop, 0, WANT_ALL, page, False
            ).wait()
            for pair in pairs:
                name = bytes(pair.key).removeprefix(self._prefix)
                found.append((name, self._readable(bytes(pair.value))))
            if not count or not more:
                return found
            start, page = bytes(pairs[-1].key) + b"\x00", page + 1

    def _readable(self, value: bytes | None) -> Outcome:
        return self._stamps.get(value, value) if value is not None else None


def serial(program: list[Call], outcomes: list[Any]) -> bool:
    """Return whether the committed transactions could have run one after the other.

    Each one then runs whole at the moment of its commit, those that only read at their beginning.
    """
    state: dict[bytes, Outcome] = {}
    states = [dict(state)]
    pending: dict[int, list[tuple[Call, Outcome]]] = {}
    began: dict[int, int] = {}
    stamps = 0
    for call, outcome in zip(program, outcomes, strict=True):
        calls_so_far = pending.setdefault(call.transaction, [])
        if call.name in ("get", "range") and outcome is not None:
            began.setdefault(call.transaction, len(states) - 1)
        if call.name != "commit":
            calls_so_far.append((call, outcome))
            continue
        first = began.pop(call.transaction, len(states) - 1)
        done = pending.pop(call.transaction)
        if outcome != "committed":
            continue
        writes = any(each.name in ("set", "clear", "stamp") for each, _ in done)
        result = _replayed(state if writes else states[first], done, stamps)
        if result is None:
            return False
        if writes:
            stamps += any(each.name == "stamp" for each, _ in done)
            state = {
                key: value[1] if isinstance(value, tuple) else value
                for key, value in result.items()
            }
            states.append(dict(state))
    return True


def _replayed(
    state: dict[bytes, Outcome], done: list[tuple[Call, Outcome]], stamps: int
) -> dict[bytes, Outcome] | None:
    """Return the state after a transaction; None if one of its reads had another result."""
    now = dict(state)
    stamped: set[bytes] = set()
    for call, outcome in done:
        match call.name:
            case "set":
                now[call.key] = call.other
            case "clear":
                now.pop(call.key, None)
            case "stamp":
                now[call.key] = ("stamp", stamps)
                stamped.add(call.key)
            case "get" if call.key not in stamped:
                if ("value", now.get(call.key)) != outcome:
                    return None
            case "range" if is_readable(call, stamped):
                expected = [(key, now[key]) for key in sorted(now) if call.key <= key < call.other]
                if expected != outcome:
                    return None
    return now


@LOCAL
@given(program=PROGRAMS)
def test_the_model_of_fdb_is_serializable(program: list[Call]) -> None:
    ends = [Call(number, "commit") for number in range(TRANSACTIONS)]
    everything = Call(0, "range", KEYS[0], b"e")
    outcomes = Program(ModelCluster(), b"p").run(program)
    whole = [*program, *ends, everything, Call(0, "commit")]
    assert serial(whole, [*outcomes, "committed"])


@pytest.fixture(scope="module")
def native() -> Iterator[NativeBindings]:
    found = re.fullmatch(r"fdb://(.+)\?dir=.*", fdb_uri("transactions"))
    assert found is not None
    yield NativeBindings(Path(found[1]), TlsFiles())


@REMOTE
@given(program=PROGRAMS)
def test_the_model_of_fdb_and_a_cluster_have_the_same_results(
    native: NativeBindings, program: list[Call]
) -> None:
    prefix = native.directory(("rhumbline-tests", "transactions"), TIMEOUT_MS)
    expected = Program(ModelCluster(), b"p").run(program)
    assert Program(native, prefix + uuid4().bytes).run(program) == expected
