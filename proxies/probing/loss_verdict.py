"""The decision whether a proxy is lost, from the evidence about it (rules PRX-32, PRX-33). Pure.

A wrong decision costs its owner's streams a pause of one takeover; it never costs a record, because
the claim of a stream and the fence of its ledger decide who may append (rule PRX-1).
"""

from enum import Enum, unique
from typing import NamedTuple

from .peer_evidence import PeerEvidence

PROBES_MIN = 3
"""Probes without a response before a silent peer may be lost."""
SLOWEST_FACTOR = 2.0
"""A peer is silent at least this many times as long as its slowest response of a minute took."""
LATENESS_FACTOR = 4.0
"""Each millisecond by which this process or the peer was late prolongs the tolerated silence by as
many: of a process that is short of CPU, one delay in thousands is several times the usual one."""
_REPORT_VALID_S = 1.0


@unique
class LossVerdict(Enum):
    """The conclusions of a proxy about another one."""

    ALIVE = "it responds, or has not been silent for long"
    SUSPECTED = "it is silent: ask other proxies, and decide later"
    LOST = "it does not exist any more, or is hung: others take its streams over"
    WITHHELD = "it seems lost, but this proxy may be the cause, or cannot tell"


class Observer(NamedTuple):
    """The state of the proxy that decides."""

    now_s: float
    silence_s: float
    """The tolerated silence of a healthy region."""
    lateness_s: float
    """Lateness of this process: the worst of two seconds, or the usual one of a minute."""
    has_session: bool
    """True if this proxy has a session in the metadata store."""
    peers: int
    """Number of proxies that it watches."""
    silent_peers: int
    """Number of these that are suspected now."""
    gone_peers: int
    """Number of these whose host refused a connection."""
    has_helpers: bool
    """True if there are other proxies that can be asked for a second observation."""


def tolerated_silence_s(peer: PeerEvidence, observer: Observer) -> float:
    """Return how long the peer may be silent.

    A process that is short of CPU is slow before it is silent. The time therefore grows with the
    lateness of both event loops, and with the slowest response that the peer gave lately.
    """
    lateness_s = observer.lateness_s + peer.lateness_s
    return max(
        observer.silence_s + LATENESS_FACTOR * lateness_s,
        SLOWEST_FACTOR * peer.slowest_s,
    )


def judge_peer(peer: PeerEvidence, observer: Observer) -> LossVerdict:
    """Return the verdict about a peer."""
    if not peer.member_ids or peer.is_stopping:
        return LossVerdict.ALIVE
    if peer.is_gone:
        is_doubtful = observer.gone_peers > 2 and _is_most(observer.gone_peers, observer.peers)
        return LossVerdict.WITHHELD if is_doubtful else LossVerdict.LOST
    silent_s = peer.silent_s(observer.now_s)
    tolerated_s = tolerated_silence_s(peer, observer)
    if silent_s < tolerated_s / 2 or not peer.unanswered:
        return LossVerdict.ALIVE
    if silent_s < tolerated_s or peer.unanswered < PROBES_MIN:
        return LossVerdict.SUSPECTED
    is_trusted = (
        observer.has_session
        and has_second_witness(peer, observer)
        and not _is_most(observer.silent_peers, observer.peers)
    )
    return LossVerdict.LOST if is_trusted else LossVerdict.WITHHELD


def has_second_witness(peer: PeerEvidence, observer: Observer) -> bool:
    """Return whether somebody else got no response from the peer either.

    That is another proxy; a client only if there is no other proxy to ask.
    """
    if observer.has_helpers:
        return bool(peer.witnesses)
    reported_at_s = peer.reported_at_s
    return reported_at_s is not None and reported_at_s >= observer.now_s - _REPORT_VALID_S


def _is_most(count: int, of: int) -> bool:
    """Return whether several peers at once, and more than half of all, seem lost."""
    return count > 1 and 2 * count > of
