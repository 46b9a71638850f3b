"""Each call is served by the listener of those who need it (rule SEC-44)."""

from rhumbline.proxies.listeners.listener import ADMINISTRATIVE, ON_EACH, Listener
from rhumbline.proxies.rpc import methods


def test_administrative_calls_are_those_that_only_administrators_may_make() -> None:
    assert {method.name for method in ADMINISTRATIVE} == {
        "SetPolicy",
        "SetHomeRegion",
        "SetAccepting",
        "ReleaseStream",
        "SealStream",
        "UnsealStream",
        "RollStream",
        "CreateNamespace",
        "DeleteNamespace",
    }


def test_every_call_is_served_by_a_listener_and_administration_by_that_of_operators_alone() -> None:
    for method in methods.METHODS:
        served = {kind for kind in Listener if kind.serves(method)}
        assert Listener.SHARED in served
        if method in ADMINISTRATIVE:
            assert served == {Listener.SHARED, Listener.OPERATORS}
        elif method in ON_EACH:
            assert served == set(Listener)
        else:
            assert served == {Listener.SHARED, Listener.DATA}


def test_operators_can_find_and_examine_but_neither_read_nor_append() -> None:
    assert {methods.LIST_PROXIES, methods.DESCRIBE_STREAM, methods.PROBE_PROXY} <= ON_EACH
    data = {methods.APPEND, methods.READ, methods.DELETE_STREAM, methods.COMMIT_SUBSCRIPTION}
    assert not any(Listener.OPERATORS.serves(method) for method in data)
