"""The policy of a stream or namespace as a document for programs, and its schema."""

from dataclasses import fields
from typing import Any

from ...core.log.policy import FlushPolicy, StreamPolicy
from ...core.protocol.quorum import Quorum
from ...core.runtime.settings import DeclaredSetting, plain_value, settings_of
from ..output_schema import Schema, flag, integer, listing, maybe, number, record, text

_KINDS = {int: integer, float: number, bool: flag, str: text}
_QUORUM_TEXTS = {
    "ensemble_size": "Bookies in an ensemble (E).",
    "write_quorum": "Copies of each entry (WQ).",
    "ack_quorum": "Copies on disk before an entry is acknowledged (AQ).",
    "min_regions": "Regions that these copies must be in (R).",
}


def quorum_document(quorum: Quorum) -> dict[str, int]:
    """Return the numbers of a quorum by name."""
    return {item.name: getattr(quorum, item.name) for item in fields(quorum)}


def policy_document(policy: StreamPolicy) -> dict[str, Any]:
    """Return a policy as plain values; the keys are those of the policy's settings."""
    found: dict[str, Any] = {}
    for name in settings_of(StreamPolicy):
        value = getattr(policy, name)
        if name == "quorum":
            found[name] = quorum_document(value)
        elif name == "flush":
            found[name] = {key: getattr(value, key) for key in settings_of(FlushPolicy)}
        else:
            found[name] = plain_value(value)
    return found


def _schema(declared: DeclaredSetting) -> Schema:
    if declared.name == "quorum":
        return QUORUM
    if declared.name == "flush":
        return record({name: _schema(one) for name, one in settings_of(FlushPolicy).items()})
    if declared.choices and declared.kind is not bool:
        found = text(declared.text, *declared.choices)
    elif declared.kind in _KINDS:
        found = _KINDS[declared.kind](declared.text)
    else:
        found = listing(text("One of them."), declared.text)
    return maybe(found) if declared.is_optional else found


QUORUM = record({item.name: integer(_QUORUM_TEXTS[item.name]) for item in fields(Quorum)})
"""The schema of ``quorum_document``."""

POLICY = record({name: _schema(declared) for name, declared in settings_of(StreamPolicy).items()})
"""The schema of ``policy_document``."""
