"""Audit events of gRPC calls: which calls are recorded, and what is known about them."""

from random import Random

from rhumbline.core.protocol.errors import (
    NoSuchStreamError,
    NotOwnerError,
    RhumblineError,
    UnauthorizedError,
    UnknownOutcomeError,
)
from rhumbline.proxies.rpc import methods
from rhumbline.proxies.rpc import rhumbline_pb2 as pb
from rhumbline.proxies.rpc.call_audit import ACTS, CallAudit, resource_of
from rhumbline.security.audit import AuditEvent, AuditResult
from rhumbline.security.principal import Principal

READING = {
    "Append", "Read", "HoldMembership", "ListStreams", "DescribeStream", "ProbeProxy", "GetOwner",
    "DescribeNamespace", "ListProxies", "DescribeHome", "FindEnd", "ReadSchemas", "ListNamespaces",
    "ReadSubscription", "ListSubscriptions", "ListGroups", "DescribeTopic", "ListTopics",
}  # fmt: skip
POSITIONS = {"CommitSubscription", "TakeOverSubscription", "StoreAcknowledgements"}
"""Calls by which readers store how far they are: they belong to reading."""


class Recorded:
    """Keeps the events."""

    def __init__(self) -> None:
        self.events: list[AuditEvent] = []

    def record(self, event: AuditEvent) -> None:
        self.events.append(event)


class Call:
    """The context of a call."""

    def __init__(self, request_id: str = "") -> None:
        self._request_id = request_id

    def invocation_metadata(self) -> tuple[tuple[str, str], ...]:
        return (("x-request-id", self._request_id),) if self._request_id else ()

    def peer(self) -> str:
        return "ipv6:%5B::1%5D:4000"


def recorded(
    method: methods.Method, error: RhumblineError | None, request_id: str = ""
) -> list[AuditEvent]:
    """Return the events of one call."""
    sink = Recorded()
    request = pb.DeleteStreamRequest(namespace="a", stream="b")
    call = CallAudit(sink, Random(1)).begin(Call(request_id), method, request)
    call.principal = Principal("ada")
    if error is None:
        call.done()
    else:
        call.failed(error)
    return sink.events


def test_each_method_is_an_act_or_known_to_change_nothing() -> None:
    acts = {method.name for method in ACTS}
    assert acts | READING | POSITIONS == {method.name for method in methods.METHODS}
    assert not acts & (READING | POSITIONS)


def test_an_act_is_recorded_with_its_result() -> None:
    (event,) = recorded(methods.DELETE_STREAM, None, "r-1")
    assert event == AuditEvent(
        "DeleteStream", AuditResult.DONE, "ada", "[::1]:4000", "stream:a/b", "", "r-1"
    )
    for error, result in (
        (UnauthorizedError("no"), AuditResult.REFUSED),
        (NoSuchStreamError("no"), AuditResult.FAILED),
        (UnknownOutcomeError("?"), AuditResult.UNKNOWN),
    ):
        (event,) = recorded(methods.DELETE_STREAM, error)
        assert (event.result, event.error) == (result, error.code)
    assert recorded(methods.DELETE_STREAM, NotOwnerError("elsewhere")) == []


def test_of_other_calls_only_refusals_are_recorded() -> None:
    assert recorded(methods.LIST_STREAMS, None) == []
    assert recorded(methods.LIST_STREAMS, NoSuchStreamError("no")) == []
    assert len(recorded(methods.LIST_STREAMS, UnauthorizedError("no"))) == 1


def test_an_id_that_is_no_id_is_replaced() -> None:
    for wrong in ("", "x" * 65, "a b", 'a"b'):
        (event,) = recorded(methods.DELETE_STREAM, None, wrong)
        assert event.request_id == "2265b1f5-1"


def test_a_resource_is_named_by_kind_and_namespace() -> None:
    assert resource_of(pb.CreateTopicRequest(namespace="a", topic="t")) == "topic:a/t"
    assert resource_of(pb.DeleteNamespaceRequest(namespace="a")) == "namespace:a"
    assert resource_of(pb.SetAcceptingRequest()) == ""
