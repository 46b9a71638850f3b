"""The decision that a proxy is lost, by the evidence about it and the state of the observer."""

from rhumbline.proxies.probing.loss_verdict import LossVerdict, Observer, judge_peer
from rhumbline.proxies.probing.peer_evidence import PeerEvidence

IDS = frozenset({"m1"})
OBSERVER = Observer(
    now_s=10.0,
    silence_s=0.3,
    lateness_s=0.0,
    has_session=True,
    peers=2,
    silent_peers=1,
    gone_peers=0,
    has_helpers=True,
)


def silent(seconds: float, *witnesses: str, probes: int = 3, took_s: float = 0.001) -> PeerEvidence:
    """Return a peer that responded once, ``seconds`` before the decision."""
    peer = PeerEvidence(0.0)
    heard_s = OBSERVER.now_s - seconds
    peer.on_response(heard_s, 0.0, 0.0, IDS, is_stopping=False)
    peer.on_response(heard_s, 1.0, 1.0 + took_s, IDS, is_stopping=False)
    for _ in range(probes):
        peer.on_sent()
    peer.witnesses.update(witnesses)
    return peer


def test_silence_is_suspected_first_and_needs_probes_and_a_witness() -> None:
    assert judge_peer(silent(0.1, "w"), OBSERVER) is LossVerdict.ALIVE
    assert judge_peer(silent(0.2, "w"), OBSERVER) is LossVerdict.SUSPECTED
    assert judge_peer(silent(0.31, "w"), OBSERVER) is LossVerdict.LOST
    assert judge_peer(silent(0.31, "w", probes=2), OBSERVER) is LossVerdict.SUSPECTED
    assert judge_peer(silent(0.31), OBSERVER) is LossVerdict.WITHHELD


def test_a_peer_that_never_responded_is_not_accused() -> None:
    peer = PeerEvidence(0.0)
    for _ in range(9):
        peer.on_sent()
    peer.witnesses.add("w")
    assert judge_peer(peer, OBSERVER) is LossVerdict.ALIVE
    peer.is_gone = True
    assert judge_peer(peer, OBSERVER) is LossVerdict.ALIVE


def test_a_refused_connection_needs_neither_time_nor_a_witness() -> None:
    peer = silent(0.01, probes=0)
    peer.is_gone = True
    assert judge_peer(peer, OBSERVER._replace(gone_peers=1)) is LossVerdict.LOST
    assert judge_peer(peer, OBSERVER._replace(gone_peers=2)) is LossVerdict.LOST
    many = OBSERVER._replace(peers=4, gone_peers=3)
    assert judge_peer(peer, many) is LossVerdict.WITHHELD, "so many: it may be this proxy"
    peer.is_stopping = True
    assert judge_peer(peer, OBSERVER._replace(gone_peers=1)) is LossVerdict.ALIVE


def test_slow_responses_prolong_the_tolerated_silence() -> None:
    assert judge_peer(silent(0.5, "w", took_s=0.3), OBSERVER) is LossVerdict.SUSPECTED
    assert judge_peer(silent(0.61, "w", took_s=0.3), OBSERVER) is LossVerdict.LOST


def test_lateness_of_the_observer_prolongs_the_tolerated_silence() -> None:
    late = OBSERVER._replace(lateness_s=0.1)
    assert judge_peer(silent(0.6, "w"), late) is LossVerdict.SUSPECTED
    assert judge_peer(silent(0.71, "w"), late) is LossVerdict.LOST


def test_a_peer_that_was_late_lately_may_be_silent_for_longer() -> None:
    peer = silent(0.7, "w")
    peer.lateness_s = 0.1
    assert judge_peer(peer, OBSERVER) is LossVerdict.SUSPECTED
    assert judge_peer(peer, OBSERVER._replace(now_s=10.1)) is LossVerdict.LOST
    both = OBSERVER._replace(lateness_s=0.1, now_s=10.3)
    assert judge_peer(peer, both) is LossVerdict.SUSPECTED


def test_an_observer_that_may_be_the_cause_accuses_nobody() -> None:
    peer = silent(0.5, "w")
    assert judge_peer(peer, OBSERVER._replace(has_session=False)) is LossVerdict.WITHHELD
    assert judge_peer(peer, OBSERVER._replace(silent_peers=2)) is LossVerdict.WITHHELD
    assert judge_peer(peer, OBSERVER._replace(silent_peers=2, peers=4)) is LossVerdict.LOST


def test_a_report_is_a_witness_only_if_there_is_no_other_proxy() -> None:
    peer = silent(0.5)
    peer.reported_at_s = 9.5
    assert judge_peer(peer, OBSERVER) is LossVerdict.WITHHELD
    alone = OBSERVER._replace(has_helpers=False)
    assert judge_peer(peer, alone) is LossVerdict.LOST
    peer.reported_at_s = 8.9
    assert judge_peer(peer, alone) is LossVerdict.WITHHELD
