"""Generates the page of the policies of streams from their declarations."""

from collections.abc import Iterator, Mapping

from ...client.units import show_bytes, show_ms
from ...core.log.policy import FlushPolicy, StreamPolicy
from ...core.runtime.settings import DeclaredSetting, Unit, plain_value, settings_of
from ..streams.policy_options import option_name

POLICIES_FILE = "stream-policies.md"

_HEAD = """\
# Policies of streams

Generated from the program; do not edit. A policy is set with `rhumbline stream create`, `stream
set-policy` and their namesakes for namespaces, or as a `StreamPolicy` of
[`rhumbline.policies`](api/policies.md). A stream without a policy of its own follows its namespace.
A change takes effect with the next segment of each stream, except for retention, which reads the
policy as it is now. [Choose ordering, partitions, flushing and
exactly-once](../how-to/choose-how-to-write.md) says which values suit which application.

## StreamPolicy

"""
_QUORUM = """
## Quorum

| field | in `--quorum E/WQ/AQ/R` | meaning |
|---|---|---|
| `ensemble_size` | E | bookies that store the entries of a segment |
| `write_quorum` | WQ | copies of each entry |
| `ack_quorum` | AQ | bookies that must have an entry on disk before it is acknowledged |
| `min_regions` | R | regions in which these bookies must lie |

1 ≤ R ≤ AQ ≤ WQ ≤ E. [Why regions count](../explanation/regions-in-the-quorum.md) explains R, and
[Loss of regions](region-loss-table.md) shows what each quorum survives. `rhumbline stream create`
chooses a quorum that suits the regions of the cluster if neither the stream nor its namespace has
one.

## FlushPolicy

"""
_NESTED: Mapping[str, tuple[str, str]] = {
    "quorum": ("quorum", "see [Quorum](#quorum)"),
    "flush": ("flush", "see [FlushPolicy](#flushpolicy)"),
}


def policies_page() -> str:
    """Return the page of all fields of the policies, with their options."""
    stream, flush = _table(StreamPolicy), _table(FlushPolicy)
    return "\n".join([_HEAD + "\n".join(stream), _QUORUM + "\n".join(flush)]) + "\n"


def _table(cls: type) -> Iterator[str]:
    yield "| field | option | default | values | meaning |"
    yield "|---|---|---|---|---|"
    for name, declared in settings_of(cls).items():
        option, values = _NESTED.get(name, (option_name(name), _values(declared)))
        default = "" if name == "flush" else _shown(declared, declared.default)
        text = declared.text.replace("|", "&#124;")
        yield f"| `{name}` | `--{option}` | {default} | {values} | {text} |"


def _values(declared: DeclaredSetting) -> str:
    if declared.choices:
        return ", ".join(f"`{choice}`" for choice in declared.choices)
    none = " or `none`" if declared.is_optional else ""
    if declared.low is None or declared.high is None:
        return f"{declared.type_text}{none}"
    low, high = (_shown(declared, int(bound)) for bound in (declared.low, declared.high))
    return f"{declared.type_text} between {low} and {high}{none}"


def _shown(declared: DeclaredSetting, value: object) -> str:
    if value is None:
        return "`none`"
    if value == ():
        return "empty"
    if declared.kind is int and isinstance(value, int):
        return show_ms(value) if declared.unit is Unit.MS else show_bytes(value)
    plain = plain_value(value)
    if isinstance(plain, bool):
        plain = str(plain).lower()
    return f"`{plain if isinstance(plain, str) else value}`"
