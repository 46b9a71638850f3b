"""Responses end a suspicion, and name the registrations that ended."""

from rhumbline.proxies.probing.peer_evidence import PeerEvidence


def respond(
    peer: PeerEvidence, sent_s: float, received_s: float, *ids: str, is_stopping: bool = False
) -> frozenset[str]:
    return peer.on_response(received_s, sent_s, received_s, ids, is_stopping=is_stopping)


def test_a_response_ends_every_suspicion() -> None:
    peer = PeerEvidence(0.0)
    assert respond(peer, 0.75, 1.0, "m1") == frozenset()
    peer.on_sent()
    peer.is_gone = True
    peer.witnesses.add("w")
    respond(peer, 1.75, 2.0, "m1", is_stopping=True)
    assert (peer.unanswered, peer.is_gone, peer.witnesses) == (0, False, set())
    assert peer.silent_s(2.5) == 0.5
    assert peer.slowest_s == 0.25
    assert peer.is_stopping


def test_registrations_that_a_peer_no_longer_names_have_ended() -> None:
    peer = PeerEvidence(0.0)
    respond(peer, 0.9, 1.0, "m1", "r1")
    assert respond(peer, 1.9, 2.0, "r1") == {"m1"}
    assert respond(peer, 2.9, 3.0, "m2", "r1") == frozenset()
    assert peer.member_ids == {"m2", "r1"}


def test_responses_of_simultaneous_probes_end_nothing() -> None:
    """The later response may be the older one; removing what it does not name would be wrong."""
    peer = PeerEvidence(0.0)
    respond(peer, 0.9, 1.0, "m1")
    assert respond(peer, 1.9, 2.0, "m2") == {"m1"}
    assert respond(peer, 1.8, 2.1, "m1") == frozenset()
    assert respond(peer, 2.9, 3.0, "m2") == {"m1"}


def test_only_responses_of_a_known_process_show_its_pace() -> None:
    """Probes from before the first response waited for a connection, or for a hung process."""
    peer = PeerEvidence(0.0)
    respond(peer, 0.0, 0.75, "m1")
    respond(peer, 0.25, 0.75, "m1")
    assert peer.slowest_s == 0
    respond(peer, 1.0, 1.125, "m1")
    assert peer.slowest_s == 0.125
    peer.forget_members()
    respond(peer, 2.0, 2.75, "m2")
    respond(peer, 2.25, 2.75, "m2")
    assert peer.slowest_s == 0.125
