"""Where streams are in the metadata store, and which names they may have.

::

    /rhumbline/namespaces/<namespace>                     NamespaceRecord
    /rhumbline/namespaces/<namespace>/streams/<stream>    StreamRecord: administrators change it
        .../head                                          StreamHead: writers change it
        .../segments/<lssn, 19 digits>                    Segment
        .../subscriptions/<name>                          Subscription
    /rhumbline/namespaces/<namespace>/topics/<topic>      how many partitions; each is a stream
        .../groups/<group>/members/<id>                   ephemeral: who is there
        .../groups/<group>/claims/<partition>             ephemeral: who reads it
"""

import re

from ...protocol.errors import InvalidArgumentError

ROOT = "/rhumbline/namespaces"

NAME_CHARACTERS_MAX = 200
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.\-]*")


def check_name(kind: str, name: str) -> str:
    """Returns ``name`` if a namespace, stream or subscription may be called so.

    Raises InvalidArgumentError, whose one line says what is allowed.
    """
    if len(name) > NAME_CHARACTERS_MAX or not _NAME.fullmatch(name):
        raise InvalidArgumentError(
            f"bad {kind} name {name[:80]!r}: letters, digits, _ . - "
            f"(not . or - at the start), at most {NAME_CHARACTERS_MAX} characters"
        )
    return name


def namespace_path(namespace: str) -> str:
    """The node of a namespace."""
    return f"{ROOT}/{check_name('namespace', namespace)}"


def streams_path(namespace: str) -> str:
    """The parent of a namespace's streams."""
    return f"{namespace_path(namespace)}/streams"


def topics_path(namespace: str) -> str:
    """The parent of a namespace's topics."""
    return f"{namespace_path(namespace)}/topics"


class StreamPaths:
    """The nodes of one stream."""

    __slots__ = ("head", "segments", "stream", "subscriptions")

    def __init__(self, namespace: str, stream: str) -> None:
        self.stream = f"{streams_path(namespace)}/{check_name('stream', stream)}"
        self.head = f"{self.stream}/head"
        self.segments = f"{self.stream}/segments"
        self.subscriptions = f"{self.stream}/subscriptions"

    def segment(self, lssn: int) -> str:
        """The node of a segment; names sort like numbers."""
        return f"{self.segments}/{lssn:019d}"

    def subscription(self, name: str) -> str:
        """The node of a subscription."""
        return f"{self.subscriptions}/{check_name('subscription', name)}"


class TopicPaths:
    """The nodes of one topic."""

    __slots__ = ("topic",)

    def __init__(self, namespace: str, topic: str) -> None:
        self.topic = f"{topics_path(namespace)}/{check_name('topic', topic)}"

    def group(self, group: str) -> str:
        """The parent of all that a group's members say."""
        return f"{self.topic}/groups/{check_name('group', group)}"

    def members(self, group: str) -> str:
        """The parent of its members."""
        return f"{self.group(group)}/members"

    def claim(self, group: str, partition: int) -> str:
        """The node of whoever reads a partition for a group."""
        return f"{self.group(group)}/claims/{partition:05d}"


def page_start(prefix: str, after: str | None) -> str | None:
    """Behind which name a listing starts that wants names with ``prefix`` beyond ``after``."""
    if not prefix:
        return after
    # The greatest text below every name with the prefix: "~" sorts above all that names contain.
    below = prefix[:-1] + chr(ord(prefix[-1]) - 1) + "~"
    return below if after is None else max(below, after)
