"""Checks that clean-up code runs to its end even if its task is cancelled meanwhile.

A task that is cleaning up after an error, or at its end, may be cancelled by its owner. What comes
after an ``await`` in a ``finally`` is then skipped: a proxy kept sessions of killed clients alive.
A second step belongs in a nested ``finally`` or an ``AsyncExitStack``.
"""

import ast

import pytest

from rhumbline.tests.support.tidy import source_tree

ONE_RUN = ("bench", "chaos", "cli", "lab", "spark", "testing")
"""Folders with programs that end with their clean-up."""

_WAITS = (ast.Await, ast.AsyncWith, ast.AsyncFor)


def faults(tree: ast.Module) -> list[str]:
    """Return the statements that are skipped if the task is cancelled in the one before."""
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Try):
            for statement, following in zip(node.finalbody, node.finalbody[1:], strict=False):
                if any(isinstance(each, _WAITS) for each in ast.walk(statement)):
                    found.append(f"{following.lineno}: {ast.unparse(following).splitlines()[0]}")
    return found


@pytest.mark.parametrize(
    ("ending", "expected"),
    [
        ("a.stop(); await b.aclose()", []),
        ("await a.aclose(); b.stop()", ["5: b.stop()"]),
        ("await a.aclose(); await b.aclose()", ["5: await b.aclose()"]),
    ],
)
def test_steps_after_an_await_are_found(ending: str, expected: list[str]) -> None:
    code = f"async def work():\n    try:\n        await x()\n    finally:\n        {ending}\n"
    assert faults(ast.parse(code)) == expected


def test_clean_up_awaits_in_its_last_step_only() -> None:
    modules = [m for m in source_tree.product_modules() if m.parts[0] not in ONE_RUN]
    found = [f"{m}:{fault}" for m in modules for fault in faults(source_tree.parse(m))]
    assert modules
    assert not found, "\n".join(found)
