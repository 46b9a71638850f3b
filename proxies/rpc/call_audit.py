"""Audit events of gRPC calls: each act that changes the cluster, and each refusal (rule SEC-20)."""

import itertools
import re
from random import Random
from typing import Any
from urllib.parse import unquote

from google.protobuf.message import Message

from ...core.protocol.errors import NotOwnerError, PermissionDeniedError, RhumblineError
from ...security.audit import AuditEvent, AuditResult, AuditSink, result_of
from ...security.caller import Caller
from ...security.grant_table import AccessDecision
from ...security.grants import Action, Resource
from ...security.principal import ANONYMOUS, Principal
from . import methods

ACTS = frozenset(
    {
        methods.CREATE_STREAM,
        methods.DELETE_STREAM,
        methods.TRUNCATE_STREAM,
        methods.UNTRUNCATE_STREAM,
        methods.END_STREAM,
        methods.SET_POLICY,
        methods.SET_HOME_REGION,
        methods.SET_ACCEPTING,
        methods.RELEASE_STREAM,
        methods.SEAL_STREAM,
        methods.UNSEAL_STREAM,
        methods.ROLL_STREAM,
        methods.REPLACE_SCHEMAS,
        methods.CREATE_NAMESPACE,
        methods.DELETE_NAMESPACE,
        methods.CREATE_SUBSCRIPTION,
        methods.RESET_SUBSCRIPTION,
        methods.DELETE_SUBSCRIPTION,
        methods.CREATE_TOPIC,
        methods.GROW_TOPIC,
        methods.DELETE_TOPIC,
    }
)
"""The methods that are audited when they succeed, too."""

_REQUEST_ID = "x-request-id"
_VALID_ID = re.compile(r"[\w.:/-]{1,64}", re.ASCII)
_NAMES = ("stream", "topic", "subscription")


class CallAudit:
    """Records the calls of one proxy."""

    def __init__(self, sink: AuditSink, random: Random) -> None:
        """``random`` makes the ids of calls that bring none."""
        self.sink = sink
        self._prefix = f"{random.getrandbits(32):08x}"
        self._numbers = itertools.count(1)

    def begin(
        self,
        context: Any,  # noqa: ANN401 - grpc's ServicerContext
        method: methods.Method,
        request: Message | None = None,
    ) -> "CallRecord":
        """Return the record of a call that begins."""
        return CallRecord(self, context, method, request)

    def id_of(self, context: Any) -> str:  # noqa: ANN401 - as above
        """Return the id that the client gave the call as ``x-request-id``, or a new one."""
        for key, value in context.invocation_metadata() or ():
            if key == _REQUEST_ID and isinstance(value, str) and _VALID_ID.fullmatch(value):
                return value
        return f"{self._prefix}-{next(self._numbers)}"


class AuditedItems:
    """Records the refused items of append calls, which do not end their calls.

    Implements AccessObserver. Refusals that end a call are in the record of the call.
    """

    def __init__(self, sink: AuditSink) -> None:
        self._sink = sink

    def refused(
        self, caller: Caller, action: Action, resource: Resource, decision: AccessDecision
    ) -> None:
        """See AccessObserver."""
        if action is Action.APPEND:
            self._sink.record(
                AuditEvent(
                    methods.APPEND.name,
                    AuditResult.REFUSED,
                    str(caller.principal),
                    caller.peer,
                    str(resource),
                    PermissionDeniedError.code,
                    caller.request_id,
                )
            )


class CallRecord:
    """One call, until its end is recorded."""

    __slots__ = ("_audit", "_context", "_method", "_request", "principal", "request_id")

    def __init__(
        self,
        audit: CallAudit,
        context: Any,  # noqa: ANN401 - as above
        method: methods.Method,
        request: Message | None,
    ) -> None:
        self.principal: Principal = ANONYMOUS
        """The caller, once it is known."""
        self.request_id = audit.id_of(context)
        """The id of the call in the audit log."""
        self._audit = audit
        self._context = context
        self._method = method
        self._request = request

    def done(self) -> None:
        """Record that the call succeeded, if it is an act."""
        if self._method in ACTS:
            self._record(AuditResult.DONE, "")

    def failed(self, error: RhumblineError) -> None:
        """Record a refusal, or an act without success; a redirect to another proxy is neither."""
        result = result_of(error)
        is_act = self._method in ACTS and not isinstance(error, NotOwnerError)
        if is_act or result is AuditResult.REFUSED:
            self._record(result, error.code)

    def _record(self, result: AuditResult, error: str) -> None:
        self._audit.sink.record(
            AuditEvent(
                self._method.name,
                result,
                str(self.principal),
                peer_of(self._context),
                "" if self._request is None else resource_of(self._request),
                error,
                self.request_id,
            )
        )


def peer_of(context: Any) -> str:  # noqa: ANN401 - as above
    """Return the address of the client as host:port."""
    return unquote(str(context.peer())).partition(":")[2]


def resource_of(request: Message) -> str:
    """Return the resource that a request names: ``kind:namespace/name``; "" if it names none."""
    namespace = getattr(request, "namespace", "")
    for kind in _NAMES:
        name = getattr(request, kind, "")
        if name:
            return f"{kind}:{namespace}/{name}"
    return f"namespace:{namespace}" if namespace else ""
