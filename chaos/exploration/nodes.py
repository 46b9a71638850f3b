"""Nodes: a state of one process together with the messages that are under way to it.

A global state is one node for each process. Whatever an event changes is a node: that of the
process to which it happens, and those of the processes to which it sends something. Each of these
changes is computed once for each node. Equal nodes are one object, whose key stands for it.

Messages of one connection arrive in order; messages of different connections arrive in any order.
Whether a message was lost makes no difference to safety: it is one that has not arrived yet.
"""

from collections.abc import Iterable

from .local_states import Event, LocalState, LocalStates, Output
from .processes.canonical import digest_of
from .processes.process import DESTROYED, LOST, POWER_LOSS, STORE, TIME, Message

Channel = tuple[int, int]
"""The source and the connection of messages to a process."""

Inbox = dict[Channel, tuple[int, ...]]
"""The messages that are under way to a process, by channel in the order of their arrival."""

_NEVER_USED = -1


class Bundle:
    """Messages that one event sends to one process. Equal bundles are one object.

    ``notice`` is a message, sent on the receiver's present connection, that this connection ended
    (0: none). It comes before the others, each of which has a connection of its own.
    """

    __slots__ = ("is_down", "messages", "notice", "source")

    def __init__(
        self, source: int, notice: int, is_down: bool, messages: tuple[tuple[int, int], ...]
    ) -> None:
        self.source = source
        self.notice = notice
        self.is_down = is_down
        self.messages = messages


class NodeMove:
    """An event of a process: the node after it, and what it sends to which process."""

    __slots__ = ("event", "is_visible", "node", "sends")

    def __init__(
        self,
        event: Event,
        node: "ProcessNode",
        sends: tuple[tuple[int, Bundle], ...],
        is_visible: bool,
    ) -> None:
        self.event = event
        self.node = node
        self.sends = sends
        self.is_visible = is_visible
        """True if it changes a fact that an invariant is about."""


class ProcessNode:
    """A local state and the messages under way to it. ``after`` caches the nodes that follow if a
    bundle is sent to it."""

    __slots__ = (
        "_has_visible",
        "_moves",
        "_time_move",
        "after",
        "count",
        "exposed",
        "inbox",
        "is_awaiting",
        "is_candidate",
        "is_idle",
        "key",
        "local",
        "reach",
    )

    def __init__(self, local: LocalState, inbox: Inbox, key: int, nodes: "ProcessNodes") -> None:
        self.local = local
        self.inbox = inbox
        self.key = key
        self.is_idle = not inbox and not local.actions
        """True if nothing but faults and the passing of time can happen to the process."""
        self.count = len(inbox) + len(local.actions) + len(local.faults)
        """The number of events, without the passing of time."""
        number = local.process
        self.is_candidate = not self.is_idle and number != nodes.store
        """True if the events of this process may be a persistent set."""
        connections = local.connections
        sources = (
            (s, 0 if s == nodes.store else connections.get(s, _NEVER_USED)) for s in local.awaited
        )
        self.is_awaiting = any(channel not in inbox for channel in sources)
        """True if a message may be the next that arrives on a connection that is not in use."""
        self.exposed = tuple(b for b, c in connections.items() if (b, c) not in inbox)
        """The bookies that this process is connected to, and that have not sent anything."""
        self.reach = nodes.reach_of(local)
        """The channel on which this client may send something to each bookie."""
        self.after: dict[Bundle, ProcessNode] = {}
        self._moves: list[NodeMove] | None = None
        self._time_move: NodeMove | None = None
        self._has_visible: bool | None = None

    def moves(self, nodes: "ProcessNodes") -> list[NodeMove]:
        """Return the moves for all events but the passing of time."""
        if self._moves is None:
            self._moves = [nodes.move(self, event) for event in self._events()]
        return self._moves

    def time_move(self, nodes: "ProcessNodes") -> NodeMove | None:
        """Return the move for the passing of time, None if no timer is set."""
        if self._time_move is None and self.local.has_time:
            self._time_move = nodes.move(self, Event(TIME))
        return self._time_move

    def has_visible(self, nodes: "ProcessNodes") -> bool:
        """Return whether one of ``moves`` is visible."""
        if self._has_visible is None:
            self._has_visible = any(move.is_visible for move in self.moves(nodes))
        return self._has_visible

    def _events(self) -> Iterable[Event]:
        for (source, connection), messages in self.inbox.items():
            yield Event("", source, connection, messages[0])
        for action in (*self.local.actions, *self.local.faults):
            yield Event(action)


class ProcessNodes:
    """All nodes that were reached. ``bookies`` are numbers of processes."""

    def __init__(self, states: LocalStates, bookies: frozenset[int]) -> None:
        self.states = states
        self.bookies = bookies
        self.store = states.index[STORE]
        processes = range(len(states.names))
        self.clients = tuple(n for n in processes if n not in bookies and n != self.store)
        self._restarted = states.number_of(Message(LOST, (False,)))
        self._down = states.number_of(Message(LOST, (True,)))
        self._known: dict[tuple[LocalState, tuple[object, ...]], ProcessNode] = {}
        self._bundles: dict[tuple[object, ...], Bundle] = {}
        self._queue_keys: dict[tuple[object, ...], int] = {}
        self._reach: dict[LocalState, dict[int, Channel]] = {}
        self._sends: dict[tuple[LocalState, Event], tuple[tuple[int, Bundle], ...]] = {}

    @property
    def count(self) -> int:
        """The number of nodes."""
        return len(self._known)

    def initial(self) -> tuple[ProcessNode, ...]:
        """Return the state in which every process has begun."""
        begun = [self.states.initial(number) for number in range(len(self.states.names))]
        found = [self.node(local, {}) for local, _ in begun]
        for local, outputs in begun:
            for output in outputs:
                bundle = self._bundle(local.process, 0, ((output.connection, output.message),))
                found[output.target] = self.received(found[output.target], bundle)
        return tuple(found)

    def node(self, local: LocalState, inbox: Inbox) -> ProcessNode:
        """Return the node with this state and these messages."""
        messages = tuple(sorted(inbox.items()))
        found = self._known.get((local, messages))
        if found is None:
            key = local.key
            for queue in messages:
                key ^= self._key_of(local.process, queue)
            found = self._known[local, messages] = ProcessNode(local, dict(messages), key, self)
        return found

    def _key_of(self, target: int, queue: tuple[Channel, tuple[int, ...]]) -> int:
        found = self._queue_keys.get((target, queue))
        if found is None:
            found = self._queue_keys[target, queue] = digest_of(repr((target, queue)).encode())
        return found

    def reach_of(self, local: LocalState) -> dict[int, Channel]:
        """Return the channel on which a client may send something to each bookie."""
        found = self._reach.get(local)
        if found is None:
            found = self._reach[local] = {}
            if local.process in self.clients and not local.is_done:
                used = {} if local.faults else local.connections
                for bookie in self.bookies:
                    found[bookie] = local.process, used.get(bookie, _NEVER_USED)
        return found

    def move(self, node: ProcessNode, event: Event) -> NodeMove:
        """Compute what an event of a node does."""
        before = node.local
        local, outputs = self.states.effect(before, event)
        inbox = dict(node.inbox)
        if not event.action:
            channel = event.source, event.connection
            inbox[channel] = inbox[channel][1:]
            if not inbox[channel]:
                del inbox[channel]
        elif event.action in (POWER_LOSS, DESTROYED):
            inbox.clear()
        if local.is_done or local.connections != before.connections:
            inbox = self._without_replies(local, inbox)
        sends = self._sends.get((before, event))
        if sends is None:
            sends = self._sends[before, event] = self._bundles_of(before.process, event, outputs)
        if any(self._is_ended(inbox, target) for target, _ in sends):
            outputs = tuple(o for o in outputs if not self._is_ended(inbox, o.target, o.connection))
            sends = self._bundles_of(before.process, event, outputs)
        is_visible = local.facts_number != before.facts_number
        return NodeMove(event, self.node(local, inbox), sends, is_visible)

    def _bundles_of(
        self, number: int, event: Event, outputs: tuple[Output, ...]
    ) -> tuple[tuple[int, Bundle], ...]:
        notice = {POWER_LOSS: self._restarted, DESTROYED: self._down}.get(event.action, 0)
        sends: dict[int, list[tuple[int, int]]] = {}
        if notice:
            sends.update((client, []) for client in self.clients)
        for target, connection, message in outputs:
            sends.setdefault(target, []).append((connection, message))
        return tuple(
            (target, self._bundle(number, notice, tuple(messages)))
            for target, messages in sends.items()
        )

    def _without_replies(self, local: LocalState, inbox: Inbox) -> Inbox:
        """Drop what is under way on connections that the process does not have any more."""
        if local.is_done:
            return {}
        return {
            (source, connection): messages
            for (source, connection), messages in inbox.items()
            if connection == 0 or local.connections.get(source) == connection
        }

    def _is_ended(self, inbox: Inbox, bookie: int, connection: int | None = None) -> bool:
        """Return whether the notice is under way that a connection to a bookie ended."""
        return bookie in self.bookies and any(
            source == bookie
            and (connection is None or connection == number)
            and (self._restarted in messages or self._down in messages)
            for (source, number), messages in inbox.items()
        )

    def _bundle(self, source: int, notice: int, messages: tuple[tuple[int, int], ...]) -> Bundle:
        parts = source, notice, messages
        found = self._bundles.get(parts)
        if found is None:
            is_down = notice == self._down
            found = self._bundles[parts] = Bundle(source, notice, is_down, messages)
        return found

    def received(self, node: ProcessNode, bundle: Bundle) -> ProcessNode:
        """Return the node after a bundle was added to the messages under way to it."""
        found = node.after.get(bundle)
        if found is None:
            found = node.after[bundle] = self._received(node, bundle)
        return found

    def _received(self, node: ProcessNode, bundle: Bundle) -> ProcessNode:
        local, source = node.local, bundle.source
        if local.is_done:
            return node
        inbox = dict(node.inbox)

        def append(connection: int, message: int) -> None:
            inbox[source, connection] = (*inbox.get((source, connection), ()), message)

        if bundle.notice:
            present = local.connections.get(source)
            if present is not None:
                append(present, bundle.notice)
            elif bundle.is_down:
                inbox[source, 0] = (bundle.notice,)
        for connection, message in bundle.messages:
            if self._arrives(local, source, connection):
                append(connection, message)
        return self.node(local, inbox)

    def _arrives(self, receiver: LocalState, source: int, connection: int) -> bool:
        if source in self.bookies and connection:
            return receiver.connections.get(source) == connection
        return True


State = tuple[ProcessNode, ...]
"""A state of the scope."""
