"""The page of state machines contains every transition table of the program."""

import ast
import importlib
from enum import Enum

from rhumbline.cli.reference.state_machines import TABLES, state_machines_page
from rhumbline.core.runtime.state_machine import TransitionTable
from rhumbline.tests.support.tidy import source_tree


class Lamp(Enum):
    OFF = "dark"
    ON = "bright"


class Switch(Enum):
    PRESSED = "somebody presses the switch"


def test_every_table_is_on_the_page() -> None:
    found = []
    for path in source_tree.product_modules():
        for node in source_tree.parse(path).body:
            if (
                isinstance(node, ast.Assign | ast.AnnAssign)
                and isinstance(node.value, ast.Call)
                and ast.unparse(node.value.func) == "TransitionTable"
            ):
                module = "rhumbline." + ".".join(path.with_suffix("").parts)
                target = node.target if isinstance(node, ast.AnnAssign) else node.targets[0]
                name = ast.unparse(target)
                found.append(getattr(importlib.import_module(module), name))
    assert {table.name for table in found} == {table.name for table in TABLES}
    assert len({table.name for table in TABLES}) == len(TABLES)


def test_page_has_diagram_states_and_transitions() -> None:
    table = TransitionTable(
        "lamp",
        "A lamp.",
        Lamp.OFF,
        {(Lamp.OFF, Switch.PRESSED): Lamp.ON, (Lamp.ON, Switch.PRESSED): Lamp.OFF},
    )
    page = state_machines_page([table])
    assert "## Lamp\n\nA lamp.\n" in page
    assert "  [*] --> OFF\n  OFF --> ON: PRESSED\n  ON --> OFF: PRESSED\n" in page
    assert "| `ON` | bright |\n" in page
    assert "| `OFF` | `PRESSED` | `ON` | somebody presses the switch |\n" in page
