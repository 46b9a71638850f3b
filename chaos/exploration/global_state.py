"""The states of a whole scope: the local states of its processes, and the messages under way.

Messages of one connection arrive in order; messages of different connections arrive in any order.
Whether a message was lost makes no difference to safety: it is one that has not arrived yet.
"""

from collections.abc import Iterator

from .local_states import Event, LocalState, LocalStates, Output
from .processes.process import DESTROYED, LOST, POWER_LOSS, STORE, TIME, Message

Channel = tuple[int, int, int]
"""Source, target and connection of messages."""


class GlobalState:
    """A state of the scope. It never changes."""

    __slots__ = ("channels", "locals")

    def __init__(
        self, locals_: tuple[LocalState, ...], channels: dict[Channel, tuple[int, ...]]
    ) -> None:
        self.locals = locals_
        self.channels = channels

    def key(self) -> int:
        """Return a hash that is equal for equal states, in every process."""
        return hash((tuple([s.key for s in self.locals]), frozenset(self.channels.items())))


class Transitions:
    """The transitions of a scope's states. ``bookies`` and ``clients`` are numbers of processes."""

    def __init__(self, states: LocalStates, bookies: frozenset[int]) -> None:
        self._states = states
        self._bookies = bookies
        self._store = states.index[STORE]
        self._clients = tuple(
            n for n in range(len(states.names)) if n not in bookies and n != self._store
        )
        self._restarted = states.number_of(Message(LOST, (False,)))
        self._down = states.number_of(Message(LOST, (True,)))

    def initial(self) -> GlobalState:
        """Return the state in which every process has begun."""
        found = [self._states.initial(number) for number in range(len(self._states.names))]
        state = GlobalState(tuple(local for local, _ in found), {})
        for number, (_, outputs) in enumerate(found):
            self._send(state, number, outputs, state.channels)
        return state

    # --- what may happen ------------------------------------------------------------------------

    def all_of(self, state: GlobalState) -> dict[int, list[Event]]:
        """Return all possible events by process. Time passes only if nothing else can happen but
        faults."""
        found: dict[int, list[Event]] = {}
        is_quiet = True
        for (source, target, connection), messages in state.channels.items():
            is_quiet = False
            event = Event("", source, connection, messages[0])
            found.setdefault(target, []).append(event)
        for number, local in enumerate(state.locals):
            if local.actions:
                is_quiet = False
                found.setdefault(number, []).extend(map(Event, local.actions))
        for number, local in enumerate(state.locals):
            if local.faults:
                found.setdefault(number, []).extend(map(Event, local.faults))
            if is_quiet and local.has_time:
                found.setdefault(number, []).append(Event(TIME))
        return found

    def to_explore(self, state: GlobalState) -> list[tuple[int, Event]]:
        """Return enough events to find every violation of an invariant and every final state.

        These are the events of one process, if nothing that the others do can interfere with them
        (a persistent set) and none of them changes a fact that an invariant is about. Otherwise
        these are all events.
        """
        found = self.all_of(state)
        for number in sorted(found, key=lambda number: len(found[number])):
            events = found[number]
            if self._is_persistent(state, number, events) and not any(
                self._is_visible(state.locals[number], event) for event in events
            ):
                return [(number, event) for event in events]
        return [(number, event) for number, events in found.items() for event in events]

    def _is_visible(self, local: LocalState, event: Event) -> bool:
        return self._states.effect(local, event)[0].facts_key != local.facts_key

    def _is_persistent(self, state: GlobalState, number: int, events: list[Event]) -> bool:
        """Return whether no event of another process can be first to reach this one.

        That holds if everyone who may still send something to it has already a message under way
        to it on the same connection, since that message arrives before.
        """
        if number == self._store or all(
            e.action == TIME or e.action in state.locals[number].faults for e in events
        ):
            return False
        senders = (
            self._senders_to_bookie(state, number)
            if number in self._bookies
            else self._senders_to_client(state, number)
        )
        return all(channel in state.channels for channel in senders)

    def _senders_to_bookie(self, state: GlobalState, number: int) -> Iterator[Channel]:
        """Yield the channels on which a bookie may get something.

        A connection that may be lost is a channel that may end, and is never in use for sure.
        """
        for client in self._clients:
            local = state.locals[client]
            if local.is_done:
                continue
            if local.faults:
                yield client, number, -1  # the fault may move or add messages: never in use
            yield client, number, local.connections.get(number, -1)
        if state.locals[number].awaited:
            yield self._store, number, 0

    def _senders_to_client(self, state: GlobalState, number: int) -> Iterator[Channel]:
        local = state.locals[number]
        for source in local.awaited:
            connection = 0 if source == self._store else local.connections.get(source, -1)
            yield source, number, connection
        for bookie, connection in local.connections.items():
            if state.locals[bookie].faults:
                yield bookie, number, connection

    # --- what happens then ----------------------------------------------------------------------

    def after(self, state: GlobalState, number: int, event: Event) -> GlobalState:
        """Return the state after an event of a process."""
        before = state.locals[number]
        local, outputs = self._states.effect(before, event)
        channels = dict(state.channels)
        if not event.action:
            channel = event.source, number, event.connection
            rest = channels[channel][1:]
            if rest:
                channels[channel] = rest
            else:
                del channels[channel]
        after = GlobalState((*state.locals[:number], local, *state.locals[number + 1 :]), channels)
        if event.action in (POWER_LOSS, DESTROYED):
            self._end_connections(after, number, is_down=event.action == DESTROYED)
        if local.connections != before.connections or local.is_done:
            self._drop_replies(after, number)
        self._send(after, number, outputs, channels)
        return after

    def _end_connections(self, state: GlobalState, bookie: int, *, is_down: bool) -> None:
        """Drop what is under way to a bookie that ended, and notify its clients."""
        channels = state.channels
        for channel in [c for c in channels if c[1] == bookie]:
            del channels[channel]
        notice = self._down if is_down else self._restarted
        for client in self._clients:
            connection = state.locals[client].connections.get(bookie)
            if connection is not None:
                channel = bookie, client, connection
                channels[channel] = (*channels.get(channel, ()), notice)
            elif is_down:
                channels[bookie, client, 0] = (notice,)

    def _drop_replies(self, state: GlobalState, client: int) -> None:
        """Drop what is under way on connections that the client does not have any more."""
        local = state.locals[client]
        for channel in list(state.channels):
            source, target, connection = channel
            if target != client or (not local.is_done and connection == 0):
                continue
            if local.is_done or local.connections.get(source) != connection:
                del state.channels[channel]

    def _send(
        self,
        state: GlobalState,
        number: int,
        outputs: tuple[Output, ...],
        channels: dict[Channel, tuple[int, ...]],
    ) -> None:
        for target, connection, message in outputs:
            if self._arrives(state, number, target, connection):
                channel = number, target, connection
                channels[channel] = (*channels.get(channel, ()), message)

    def _arrives(self, state: GlobalState, number: int, target: int, connection: int) -> bool:
        receiver = state.locals[target]
        if receiver.is_done:
            return False
        if number in self._bookies and connection:
            return receiver.connections.get(number) == connection
        if target in self._bookies and connection:
            under_way = state.channels.get((target, number, connection), ())
            return self._restarted not in under_way and self._down not in under_way
        return True
