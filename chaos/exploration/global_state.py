"""The states of a whole scope and their transitions: which events are tried, and what follows."""

from .local_states import Event
from .nodes import NodeMove, ProcessNode, ProcessNodes, State


def key_of(state: State) -> int:
    """Return 63 bits that stand for the state: the keys of its nodes, combined by xor."""
    key = 0
    for node in state:
        key ^= node.key
    return key


class Transitions:
    """The transitions of a scope's states. A state is a tuple of nodes, and never changes."""

    def __init__(self, nodes: ProcessNodes) -> None:
        self.nodes = nodes
        self._clients = nodes.clients

    def initial(self) -> State:
        """Return the state in which every process has begun."""
        return self.nodes.initial()

    # --- what may happen ------------------------------------------------------------------------

    def all_of(self, state: State) -> list[NodeMove]:
        """Return all possible moves. Time passes only if nothing else can happen but faults."""
        nodes = self.nodes
        found = [move for node in state for move in node.moves(nodes)]
        if all([node.is_idle for node in state]):
            found += filter(None, [node.time_move(nodes) for node in state])
        return found

    def to_explore(self, state: State) -> list[NodeMove]:
        """Return enough moves to find every violation of an invariant and every final state.

        These are the events of one process, if nothing that the others do can interfere with them
        (a persistent set) and none of them changes a fact that an invariant is about. Otherwise
        these are all events.
        """
        nodes = self.nodes
        found = [n for n in state if n.is_candidate and self._is_persistent(state, n)]
        if len(found) > 1:
            found.sort(key=_count_of)
        for node in found:
            if not node.has_visible(nodes):
                return list(node.moves(nodes))
        return self.all_of(state)

    def _is_persistent(self, state: State, node: ProcessNode) -> bool:
        """Return whether no event of another process can be first to reach this one.

        That holds if everyone who may still send something to it has already a message under way
        to it on the same connection, since that message arrives before. A client that a fault can
        happen to may send anything at any time. A connection to a bookie that a fault can happen
        to may end at any time.
        """
        if node.is_awaiting:
            return False
        number = node.local.process
        if number in self.nodes.bookies:
            inbox = node.inbox
            for client in self._clients:
                reach = state[client].reach
                if reach and reach[number] not in inbox:
                    return False
            return True
        return not any([state[bookie].local.faults for bookie in node.exposed])

    # --- what happens then ----------------------------------------------------------------------

    def key_after(self, state: State, key: int, move: NodeMove) -> int:
        """Return the key of the state after a move, computed from the key of the state."""
        node = move.node
        key ^= state[node.local.process].key ^ node.key
        for target, bundle in move.sends:
            node = state[target]
            after = node.after.get(bundle) or self.nodes.received(node, bundle)
            key ^= node.key ^ after.key
        return key

    def after(self, state: State, move: NodeMove) -> State:
        """Return the state after a move."""
        found = list(state)
        found[move.node.local.process] = move.node
        for target, bundle in move.sends:
            found[target] = self.nodes.received(found[target], bundle)
        return tuple(found)

    def move_of(self, state: State, number: int, event: Event) -> NodeMove:
        """Return the move for an event of a process in a state."""
        return self.nodes.move(state[number], event)


def _count_of(node: ProcessNode) -> int:
    return node.count
