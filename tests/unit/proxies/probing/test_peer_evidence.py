"""Responses end a suspicion, and name the registrations that ended."""

from rhumbline.proxies.probing.peer_evidence import PeerEvidence


def test_a_response_ends_every_suspicion() -> None:
    peer = PeerEvidence(0.0)
    assert peer.on_response(1.0, 0.02, frozenset({"m1"}), is_stopping=False) == frozenset()
    peer.on_sent()
    peer.is_gone = True
    peer.witnesses.add("w")
    peer.on_response(2.0, 0.01, frozenset({"m1"}), is_stopping=True)
    assert (peer.unanswered, peer.is_gone, peer.witnesses) == (0, False, set())
    assert peer.silent_s(2.5) == 0.5
    assert peer.slowest_s == 0.02
    assert peer.is_stopping


def test_registrations_that_a_peer_no_longer_names_have_ended() -> None:
    peer = PeerEvidence(0.0)
    peer.on_response(1.0, 0.01, frozenset({"m1", "r1"}), is_stopping=False)
    assert peer.on_response(2.0, 0.01, frozenset({"r1"}), is_stopping=False) == {"m1"}
    assert peer.on_response(3.0, 0.01, frozenset({"m2", "r1"}), is_stopping=False) == frozenset()
