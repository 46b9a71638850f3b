"""The table of a policy in a file: some keys of the policy, each under the name of its setting."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from ...client.settings_table import read_value, suggestion
from ...core.log.policy import FlushPolicy, StreamPolicy
from ...core.protocol.errors import InvalidArgumentError, RhumblineError
from ...core.protocol.quorum import Quorum
from ...core.runtime.settings import DeclaredSetting, Unit, plain_value, settings_of
from ..streams.policy_options import parse_quorum

ALLOWS_ACK_1 = "unsafe_ack_1"
"""Key that permits a quorum whose acknowledged entries may have a single copy."""

_MS_UNITS = (("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1_000))
_BYTES_UNITS = (("TiB", 1 << 40), ("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10))

Faults = dict[tuple[str, ...], str]
"""Maps the key of a value to what is wrong with it."""


@dataclass(frozen=True, slots=True)
class PolicyTable:
    """The keys that a file states; the others have their default."""

    quorum: Quorum | None = None
    flush: Mapping[str, Any] = field(default_factory=dict)
    values: Mapping[str, Any] = field(default_factory=dict)

    @property
    def is_empty(self) -> bool:
        """True if no key is stated."""
        return self.quorum is None and not self.flush and not self.values

    def over(self, base: StreamPolicy) -> StreamPolicy:
        """Return ``base`` with the stated values. Raises InvalidArgumentError."""
        flush = replace(base.flush, **self.flush) if self.flush else base.flush
        quorum = self.quorum or base.quorum
        return replace(base, quorum=quorum, flush=flush, **self.values)


def read_policy(table: Mapping[str, Any], faults: Faults) -> PolicyTable:
    """Return the policy of a table of a file; adds what is wrong to ``faults``."""
    known = settings_of(StreamPolicy)
    values: dict[str, Any] = {}
    quorum, flush = None, {}
    for name, value in table.items():
        if name == "quorum":
            quorum = _read_quorum(value, table.get(ALLOWS_ACK_1) is True, faults)
        elif name == "flush":
            flush = _read_flush(value, faults)
        elif name == ALLOWS_ACK_1:
            if not isinstance(value, bool):
                faults[(name,)] = f"{value!r} is not true or false"
        elif name in known:
            _read_into(values, known[name], value, (name,), faults)
        else:
            faults[(name,)] = f"unknown key {name}{suggestion(name, known)}"
    return PolicyTable(quorum, flush, values)


def _read_quorum(value: object, allows_ack_1: bool, faults: Faults) -> Quorum | None:
    if not isinstance(value, str):
        faults[("quorum",)] = f"{value!r} is not a string like 3/3/2/2"
        return None
    try:
        return parse_quorum(value, allow_ack_1=allows_ack_1)
    except RhumblineError as error:
        text = str(error).replace("--unsafe-ack-1", f"{ALLOWS_ACK_1} = true")
        faults[("quorum",)] = text
        return None


def _read_flush(value: object, faults: Faults) -> dict[str, Any]:
    known = settings_of(FlushPolicy)
    found: dict[str, Any] = {}
    if not isinstance(value, dict):
        faults[("flush",)] = f"{value!r} is not a table"
        return found
    for name, item in value.items():
        if name in known:
            _read_into(found, known[name], item, ("flush", name), faults)
        else:
            faults[("flush", name)] = f"unknown key {name}{suggestion(name, known)}"
    return found


def _read_into(
    found: dict[str, Any],
    declared: DeclaredSetting,
    value: object,
    key: tuple[str, ...],
    faults: Faults,
) -> None:
    try:
        given = read_value(declared, tuple(value) if isinstance(value, list) else value)
        if (fault := declared.fault(given)) is not None:
            raise InvalidArgumentError(fault)
    except InvalidArgumentError as error:
        faults[key] = str(error)
    else:
        found[declared.name] = given


def policy_keys(policy: StreamPolicy, base: StreamPolicy) -> dict[str, Any]:
    """Return the table from which ``read_policy`` and ``over(base)`` make the policy again.

    It always has the quorum, so that it is not empty.
    """
    quorum = policy.quorum
    found: dict[str, Any] = {"quorum": str(quorum)}
    if quorum.ack_quorum == 1 < quorum.write_quorum:
        found[ALLOWS_ACK_1] = True
    if flush := _different(policy.flush, base.flush):
        found["flush"] = flush
    return found | _different(policy, base, ("quorum", "flush"))


def _different(value: object, base: object, left_out: tuple[str, ...] = ()) -> dict[str, Any]:
    found = {}
    for name, declared in settings_of(type(value)).items():
        mine = getattr(value, name)
        if name not in left_out and mine != getattr(base, name):
            found[name] = _written(declared, mine)
    return found


def _written(declared: DeclaredSetting, value: object) -> Any:  # noqa: ANN401 - a TOML value
    """Return the value of a setting as a file has it."""
    if value is None:
        return "none"
    if type(value) is int:
        units = {Unit.MS: _MS_UNITS, Unit.BYTES: _BYTES_UNITS}.get(declared.unit, ())
        for unit, size in units:
            if value and value % size == 0:
                return f"{value // size}{unit}"
        return f"{value}ms" if declared.unit is Unit.MS else value
    return plain_value(value)


def flat_policy(policy: StreamPolicy) -> dict[str, str]:
    """Return all values of a policy as strings by key, to be compared."""
    found = {"quorum": str(policy.quorum)}
    for prefix, part in (("", policy), ("flush.", policy.flush)):
        for name, declared in settings_of(type(part)).items():
            if name not in ("quorum", "flush"):
                value = _written(declared, getattr(part, name))
                shown = ", ".join(value) or "none" if isinstance(value, list) else str(value)
                found[f"{prefix}{name}"] = shown
    return found
