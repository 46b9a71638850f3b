"""Checks that every product module has a docstring and that no error is swallowed."""

import ast
from pathlib import Path

from rhumbline.tests.support.tidy import source_tree

BROAD = {"", "Exception", "BaseException"}
# The simulator closes the coroutines of a killed process; no component is left to report to.
EXCUSED = {Path("chaos/simulation/world/loop.py")}


def caught(handler: ast.ExceptHandler) -> set[str]:
    """Return the names of the errors that a handler catches; "" for a bare `except:`."""
    match handler.type:
        case None:
            return {""}
        case ast.Tuple(elts=elements):
            return {ast.unparse(element) for element in elements}
        case kind:
            return {ast.unparse(kind)}


def is_silent(body: list[ast.stmt]) -> bool:
    """True if a handler does nothing with the error."""
    return all(isinstance(statement, ast.Pass | ast.Continue) for statement in body) or all(
        isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
        for statement in body
    )


def silent_handlers(tree: ast.Module) -> list[int]:
    """Return the lines where every error is caught and ignored."""
    lines = []
    for node in ast.walk(tree):
        if isinstance(node, ast.ExceptHandler) and caught(node) & BROAD and is_silent(node.body):
            lines.append(node.lineno)
        if isinstance(node, ast.Call) and ast.unparse(node.func).endswith("suppress"):
            names = {ast.unparse(argument) for argument in node.args}
            lines += [node.lineno] if names & BROAD else []
    return lines


def test_every_module_has_a_docstring() -> None:
    modules = source_tree.product_modules()
    assert not [str(m) for m in modules if not ast.get_docstring(source_tree.parse(m))]


def test_silent_handlers_are_found() -> None:
    for catch in ("except:", "except Exception:", "except (OSError, Exception):"):
        for body in ("pass", "...", "continue"):
            sample = f"while x:\n    try:\n        f()\n    {catch}\n        {body}\n"
            assert silent_handlers(ast.parse(sample)) == [4]
    assert silent_handlers(ast.parse("import contextlib\nwith contextlib.suppress(Exception): f()"))
    assert not silent_handlers(ast.parse("try:\n    f()\nexcept Exception as e:\n    log(e)\n"))
    assert not silent_handlers(ast.parse("try:\n    f()\nexcept KeyError:\n    pass\n"))


def test_no_error_is_swallowed() -> None:
    modules = {*source_tree.product_modules(), *modules_of_tests()} - EXCUSED
    found = {str(m): silent_handlers(source_tree.parse(m)) for m in modules}
    assert not {module: lines for module, lines in found.items() if lines}


def modules_of_tests() -> list[Path]:
    """Return all modules of the tests."""
    return [p for p in source_tree.files() if p.parts[0] == "tests" and p.suffix == ".py"]
