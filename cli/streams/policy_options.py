"""Options that set the policy of a stream, for ``create`` and ``set-policy``."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from functools import wraps
from typing import Any

import click

from ...client.settings_table import read_value
from ...client.units import show_bytes, show_ms
from ...core.log.policy import FlushPolicy, StreamPolicy
from ...core.protocol.bookie_id import check_region
from ...core.protocol.errors import InvalidArgumentError
from ...core.protocol.placement import BookieInfo, in_regions, parse_spread_rule
from ...core.protocol.quorum import Quorum
from ...core.runtime.settings import DeclaredSetting, Unit, plain_value, settings_of
from ...placement.layouts import best_layouts
from ...regions.repair.liveness import by_region
from ..errors import UnsafeError
from ..options import metavar_of

Command = Callable[..., Any]

_QUORUM = re.compile(r"(\d{1,3})/(\d{1,3})/(\d{1,3})(?:/R?(\d{1,3}))?")
_REPLICAS = 3
_DEFAULT_REPLICAS_MAX = 9
_ACKS = 2


_NAMES = {
    "period_ms": "flush",
    "bytes_max": "flush-bytes",
    "visibility_ms": "flush-visibility",
    "roll_ms": "roll-time",
}
"""Names of options that are not the name of their field without its unit."""

_ALIASES = {"period_ms": {"immediate": "0"}}
_ADDITIONS = {
    "period_ms": ' "immediate" means 0.',
    "regions": " Write eu,us; or all.",
    "spread": " none: no rule.",
}


@dataclass(frozen=True, slots=True)
class PolicyOptions:
    """The policy options that the user gave; None or False if an option was not given."""

    quorum: str | None
    unsafe_ack_1: bool
    texts: dict[str, str]
    """The strings of the other options that were given, by field of the policy or flush policy."""

    @property
    def is_any_given(self) -> bool:
        """True if at least one option was given."""
        return any(getattr(self, f.name) for f in fields(self))

    @property
    def allowed_regions(self) -> tuple[str, ...]:
        """The given regions; () for all. Raises InvalidArgumentError."""
        return parse_regions(self.texts.get("regions", "all"))

    def apply_to(self, policy: StreamPolicy) -> StreamPolicy:
        """Return ``policy`` with the given options applied.

        Raises InvalidArgumentError, UnsafeError.
        """
        changes: dict[str, Any] = {}
        if self.quorum:
            changes["quorum"] = parse_quorum(self.quorum, allow_ack_1=self.unsafe_ack_1)
        if flush := self._given(FlushPolicy):
            changes["flush"] = replace(policy.flush, **flush)
        return replace(policy, **changes, **self._given(StreamPolicy))

    def _given(self, cls: type) -> dict[str, Any]:
        """Return the given values of the fields of ``cls``."""
        given: dict[str, Any] = {}
        for name, declared in _fields_of(cls).items():
            if name in self.texts:
                text = _ALIASES.get(name, {}).get(self.texts[name], self.texts[name])
                try:
                    given[name] = (
                        _LISTS[name](text) if name in _LISTS else read_value(declared, text)
                    )
                except InvalidArgumentError as error:
                    raise InvalidArgumentError(f"--{option_name(name)}: {error}") from error
        return given


def parse_regions(text: str) -> tuple[str, ...]:
    """Parse ``eu,us``, or ``all`` for (). Raises InvalidArgumentError."""
    if text.strip() == "all":
        return ()
    return tuple(check_region(name.strip()) for name in text.split(","))


def parse_spread(text: str) -> tuple[str, ...]:
    """Parse ``region:2,rack:3``, or ``none`` for (). Raises InvalidArgumentError."""
    if text.strip() == "none":
        return ()
    parts = tuple(part.strip() for part in text.split(","))
    parse_spread_rule(parts)
    return parts


_LISTS = {"regions": parse_regions, "spread": parse_spread}


def option_name(field: str) -> str:
    """Return the name of the option that sets a field of a policy, without dashes."""
    return _NAMES.get(field, field.removesuffix("_ms").replace("_", "-"))


def _fields_of(cls: type) -> dict[str, DeclaredSetting]:
    """Return the fields of a policy that have an option of their own."""
    nested = ("quorum", "flush")
    return {name: item for name, item in settings_of(cls).items() if name not in nested}


_FIELDS = _fields_of(FlushPolicy) | _fields_of(StreamPolicy)


def policy_options(command: Command) -> Command:
    """Add the policy options; they are passed to the command as ``policy``."""

    @wraps(command)
    def wrapped(*args: object, **arguments: Any) -> object:  # noqa: ANN401 - click's own
        given = {name: arguments.pop(name) for name in _FIELDS}
        options = PolicyOptions(
            quorum=arguments.pop("quorum"),
            unsafe_ack_1=arguments.pop("unsafe_ack_1"),
            texts={name: text for name, text in given.items() if text},
        )
        return command(*args, policy=options, **arguments)

    for name, declared in reversed(_FIELDS.items()):
        wrapped = click.option(
            f"--{option_name(name)}",
            name,
            type=click.Choice(declared.choices) if declared.choices else None,
            metavar=None if declared.choices else metavar_of(declared),
            help=declared.text + _ADDITIONS.get(name, ""),
        )(wrapped)
    wrapped = click.option("--unsafe-ack-1", is_flag=True, help="Allow AQ=1 with several copies.")(
        wrapped
    )
    return click.option(
        "--quorum", help="E/WQ/AQ/R: bookies, copies, acks, regions, e.g. 3/3/2/2."
    )(wrapped)


def parse_quorum(text: str, *, allow_ack_1: bool) -> Quorum:
    """Parse ``3/3/2/2`` or ``3/3/2/R2``; the default of R is 1.

    Raises InvalidArgumentError, UnsafeError.
    """
    match = _QUORUM.fullmatch(text.strip())
    if match is None:
        raise InvalidArgumentError(f"{text!r} is not a quorum; write E/WQ/AQ/R, e.g. 3/3/2/2")
    e, wq, aq, r = (int(part or 1) for part in match.groups())
    quorum = Quorum(e, wq, aq, r)
    if aq == 1 and wq > 1 and not allow_ack_1:
        raise UnsafeError(
            f"{text}: with AQ=1 an acknowledged entry is lost if its only bookie is lost; "
            "use AQ=2, or give --unsafe-ack-1"
        )
    return quorum


def default_quorum(bookies: Sequence[BookieInfo], allowed: Sequence[str] = ()) -> Quorum:
    """Return the default quorum for these bookies.

    It has one copy per region (at least three copies), acknowledged by a majority of the regions,
    as far as the bookies permit. ``bookies`` are all configured ones, up or down; only those in the
    ``allowed`` regions count (() for all).
    """
    usable = in_regions(bookies, allowed)
    counts = by_region(usable)
    regions = len([name for name in counts if name is not None])
    majority = regions // 2 + 1 if regions > 1 else 1
    copies = max(1, min(max(_REPLICAS, regions), _DEFAULT_REPLICAS_MAX, len(usable)))
    acks = min(max(_ACKS, majority), copies)
    for min_regions in range(min(acks, majority), 1, -1):
        quorum = Quorum(copies, copies, acks, min_regions)
        if best_layouts(quorum, counts, None):
            return quorum
    return Quorum(copies, copies, acks, 1)


def describe_policy(policy: StreamPolicy) -> dict[str, Any]:
    """Return a policy as printable values."""
    flush = policy.flush
    period = {0: "immediate", None: "by bytes alone"}.get(flush.period_ms)
    visibility = f", visible after {show_ms(flush.visibility_ms)}" if flush.visibility_ms else ""
    combined = {
        "quorum": str(policy.quorum),
        "flush": f"{period or show_ms(flush.period_ms or 0)}, at {show_bytes(flush.bytes_max)}"
        f"{visibility}",
        "roll": f"after {show_bytes(policy.roll_bytes)} or {show_ms(policy.roll_ms)}",
    }
    found: dict[str, Any] = {}
    for name, declared in settings_of(StreamPolicy).items():
        words = name.split("_")
        if words[0] in combined:
            found[words[0]] = combined[words[0]]
        else:
            label = " ".join(word for word in words if word not in ("ms", "bytes"))
            found[label] = _show(declared, getattr(policy, name))
    return found


def _show(declared: DeclaredSetting, value: Any) -> Any:  # noqa: ANN401 - the field's type
    if value is None:
        return "none"
    if declared.name == "regions":
        return ", ".join(value) or "all"
    if declared.name == "spread":
        return ", ".join(value) or "none"
    if declared.kind is int:
        return show_ms(value) if declared.unit is Unit.MS else show_bytes(value)
    return plain_value(value)
