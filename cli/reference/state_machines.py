"""Generates the page of state machines from their transition tables."""

from collections.abc import Iterator, Sequence
from enum import Enum
from typing import Any

from ...core.bookie.life_cycle import BOOKIE_LIFE
from ...core.bookie.maintenance.space_recovery import SPACE_RECOVERY
from ...core.ledger.connection.connection_state import CONNECTION
from ...core.ledger.recovery.recovery_life import LEDGER_RECOVERY
from ...core.ledger.write.writer_life import LEDGER_WRITER
from ...core.log.write.pipeline_state import PIPELINE
from ...core.metadata.read_only_store import METADATA_REACH
from ...core.runtime.state_machine import TransitionTable
from ...proxies.client.sender_state import SENDER
from ...proxies.write.ownership import OWNERSHIP

TABLES: Sequence[TransitionTable[Any, Any]] = (
    BOOKIE_LIFE,
    SPACE_RECOVERY,
    CONNECTION,
    LEDGER_WRITER,
    LEDGER_RECOVERY,
    PIPELINE,
    OWNERSHIP,
    SENDER,
    METADATA_REACH,
)
"""All tables, in the order of the page. A test finds a table that is missing here."""

_HEAD = """\
# State machines

Generated from the program; do not edit. Each machine is one table in the code: a state and an event
determine the next state, and a pair without a row is impossible. If it occurs nevertheless, the
component raises `InvariantBrokenError`, which carries the machine's last transitions.
"""


def state_machines_page(tables: Sequence[TransitionTable[Any, Any]] = TABLES) -> str:
    """Return the page: for each machine its diagram, its states and its transitions."""
    return "\n".join([_HEAD, *(line for table in tables for line in _describe(table))])


def _describe(table: TransitionTable[Any, Any]) -> Iterator[str]:
    yield f"## {table.name[0].upper()}{table.name[1:]}\n"
    yield f"{table.text}\n"
    yield "```mermaid\nstateDiagram-v2"
    yield f"  [*] --> {table.initial.name}"
    for (old, new), events in _edges(table).items():
        yield f"  {old.name} --> {new.name}: {', '.join(event.name for event in events)}"
    yield "```\n"
    yield from tables_of(table)
    yield ""


def tables_of(table: TransitionTable[Any, Any]) -> Iterator[str]:
    """Return the lines of two tables: the states, and the transitions."""
    yield "| state | meaning |\n|---|---|"
    for state in type(table.initial):
        yield f"| `{state.name}` | {state.value} |"
    yield "\n| in state | event | next state | the event |\n|---|---|---|---|"
    for (event, new), states in _rows(table).items():
        names = ", ".join(f"`{state.name}`" for state in states)
        yield f"| {names} | `{event.name}` | `{new.name}` | {event.value} |"


def _edges(table: TransitionTable[Any, Any]) -> dict[tuple[Enum, Enum], list[Enum]]:
    """Return the events of each pair of states, which share an arrow."""
    edges: dict[tuple[Enum, Enum], list[Enum]] = {}
    for (old, event), new in table.transitions.items():
        edges.setdefault((old, new), []).append(event)
    return edges


def _rows(table: TransitionTable[Any, Any]) -> dict[tuple[Enum, Enum], list[Enum]]:
    """Return the states in which an event leads to the same next state, which share a row."""
    rows: dict[tuple[Enum, Enum], list[Enum]] = {}
    for (old, event), new in table.transitions.items():
        rows.setdefault((event, new), []).append(old)
    return rows
