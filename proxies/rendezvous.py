"""Rendezvous hashing of streams onto regions and proxies (rule PRX-3).

All proxies and clients that know the same members compute the same order. When a member joins or
leaves, only its share of the streams moves. The functions here are pure. Safety does not depend on
them: a proxy with an outdated member list tries to claim a stream that another proxy owns, and is
refused.
"""

from collections.abc import Iterable
from hashlib import blake2b


def preference(key: str, members: Iterable[str]) -> list[str]:
    """Return the members in the order of preference for ``key``, each of them once.

    The order differs between keys, so the streams of a lost member are spread over all others.
    """

    def rank(member: str) -> tuple[bytes, str]:
        return blake2b(f"{key} {member}".encode(), digest_size=8).digest(), member

    return sorted(dict.fromkeys(members), key=rank)
