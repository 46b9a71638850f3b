"""The states of a client's connection to a bookie.

A connection never comes back: after ``LOST`` its link opens another (bookie_link.py). Flow control
(``pause_writing``) is not a state, since it only delays the sending of requests.
"""

from enum import Enum, unique

from ...runtime.state_machine import TransitionTable


@unique
class ConnectionState(Enum):
    """The states of a connection."""

    CONNECTING = "The TCP connection is being opened. Requests are accepted and wait."
    HANDSHAKE = "The bookie is asked to prove its identity. Requests wait."
    READY = "Requests are sent."
    LOST = "The connection has ended, and every request has completed."


@unique
class ConnectionEvent(Enum):
    """The events in the life of a connection."""

    CONNECT = "TCP is connected, and the bookie's id has an incarnation to be proved"
    CONNECT_UNPROVED = "TCP is connected, and the bookie's id has no incarnation"
    PROVE = "the bookie proved that it has the expected id"
    LOSE = "the connection failed, timed out, broke the protocol or was closed"


_ALIVE = (ConnectionState.CONNECTING, ConnectionState.HANDSHAKE, ConnectionState.READY)

CONNECTION = TransitionTable(
    "connection to a bookie",
    "A client's connection to one bookie, from the attempt to connect until it is lost.",
    ConnectionState.CONNECTING,
    {
        (ConnectionState.CONNECTING, ConnectionEvent.CONNECT): ConnectionState.HANDSHAKE,
        (ConnectionState.CONNECTING, ConnectionEvent.CONNECT_UNPROVED): ConnectionState.READY,
        (ConnectionState.HANDSHAKE, ConnectionEvent.PROVE): ConnectionState.READY,
        **{(state, ConnectionEvent.LOSE): ConnectionState.LOST for state in _ALIVE},
    },
)
