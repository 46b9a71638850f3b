"""The paths of streams and topics in the metadata store, and the rules for names (rule STR-1).

::

    /rhumbline/namespaces/<namespace>                     NamespaceRecord
    /rhumbline/namespaces/<namespace>/streams/<stream>    StreamRecord, changed by administrators
        .../head                                          StreamHead, changed by writers
        .../segments/<lssn, 19 digits>                    Segment
        .../subscriptions/<name>                          Subscription
        .../schemas                                       SchemaHistory
    /rhumbline/namespaces/<namespace>/topics/<topic>      number of partitions; each is a stream
        .../groups/<group>/members/<id>                   ephemeral: a member
        .../groups/<group>/claims/<partition>             ephemeral: the member that reads it
    /rhumbline/cancelled-namespaces/<namespace>/<token>   in a regional store; rule STR-29
"""

import re

from ...protocol.errors import InvalidArgumentError

ROOT = "/rhumbline/namespaces"
CANCELLED_ROOT = "/rhumbline/cancelled-namespaces"

NAME_CHARACTERS_MAX = 200
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.\-]*")


def check_name(kind: str, name: str) -> str:
    """Return ``name`` if it is a valid name of a namespace, stream or subscription.

    Raises InvalidArgumentError with a one-line message that lists what is allowed.
    """
    if not isinstance(name, str):
        raise InvalidArgumentError(f"a {kind} name is str, not {type(name).__name__}")
    if len(name) > NAME_CHARACTERS_MAX or not _NAME.fullmatch(name):
        raise InvalidArgumentError(
            f"bad {kind} name {name[:80]!r}: letters, digits, _ . - "
            f"(not . or - at the start), at most {NAME_CHARACTERS_MAX} characters"
        )
    return name


def namespace_path(namespace: str) -> str:
    """Return the path of a namespace."""
    return f"{ROOT}/{check_name('namespace', namespace)}"


def cancelled_path(namespace: str, token: str) -> str:
    """Return the path that, in a regional store, cancels a reservation of the name."""
    return f"{CANCELLED_ROOT}/{check_name('namespace', namespace)}/{token}"


def streams_path(namespace: str) -> str:
    """Return the parent path of a namespace's streams."""
    return f"{namespace_path(namespace)}/streams"


def topics_path(namespace: str) -> str:
    """Return the parent path of a namespace's topics."""
    return f"{namespace_path(namespace)}/topics"


class StreamPaths:
    """The paths of the nodes of one stream."""

    __slots__ = ("head", "schemas", "segments", "stream", "subscriptions")

    def __init__(self, namespace: str, stream: str) -> None:
        self.stream = f"{streams_path(namespace)}/{check_name('stream', stream)}"
        self.head = f"{self.stream}/head"
        self.segments = f"{self.stream}/segments"
        self.subscriptions = f"{self.stream}/subscriptions"
        self.schemas = f"{self.stream}/schemas"

    def segment(self, lssn: int) -> str:
        """Return the path of a segment. Node names sort in numeric order."""
        return f"{self.segments}/{lssn:019d}"

    def subscription(self, name: str) -> str:
        """Return the path of a subscription."""
        return f"{self.subscriptions}/{check_name('subscription', name)}"


class TopicPaths:
    """The paths of the nodes of one topic."""

    __slots__ = ("groups", "topic")

    def __init__(self, namespace: str, topic: str) -> None:
        self.topic = f"{topics_path(namespace)}/{check_name('topic', topic)}"
        self.groups = f"{self.topic}/groups"

    def group(self, group: str) -> str:
        """Return the parent path of the nodes of a group."""
        return f"{self.groups}/{check_name('group', group)}"

    def members(self, group: str) -> str:
        """Return the parent path of a group's members."""
        return f"{self.group(group)}/members"

    def claim(self, group: str, partition: int) -> str:
        """Return the path of the claim on a partition."""
        return f"{self.group(group)}/claims/{partition:05d}"


def page_start(prefix: str, after: str | None) -> str | None:
    """Return the name after which to list names that have ``prefix`` and follow ``after``."""
    if not prefix:
        return after
    # The greatest string below every name with the prefix: "~" sorts above all name characters.
    below = prefix[:-1] + chr(ord(prefix[-1]) - 1) + "~"
    return below if after is None else max(below, after)
