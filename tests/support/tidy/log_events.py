"""The log lines of the product: event, level, logger and fields of each."""

import ast
from collections.abc import Iterator
from functools import cache
from typing import NamedTuple

from . import source_tree

LEVELS = ("debug", "info", "warning", "error")


class LogLine(NamedTuple):
    """One call that logs."""

    event: str
    level: str
    logger: str
    fields: tuple[str, ...]


@cache
def all_lines() -> tuple[LogLine, ...]:
    """Return every log line of the product, sorted by event."""
    modules = {
        module.as_posix(): source_tree.parse(module)
        for module in source_tree.product_modules()
        if module.parts[0] not in ("tests", "docs", ".ci")
        and "EventLog(" in (source_tree.ROOT / module).read_text(encoding="utf-8")
    }
    shared = {}
    for tree in modules.values():
        shared.update(_id_fields(tree))
    found = []
    for module, tree in modules.items():
        own = shared | _id_fields(tree)
        found += [line for line in _lines_of(module, tree, own) if line is not None]
    return tuple(sorted(set(found)))


def _lines_of(module: str, tree: ast.Module, ids: dict[str, tuple[str, ...]]) -> Iterator[LogLine]:
    for node in ast.walk(tree):
        match node:
            case ast.Call(
                func=ast.Attribute(value=ast.Name(id="_LOG"), attr=level), args=[event]
            ) if level in LEVELS:
                assert isinstance(event, ast.Constant), f"{module}:{node.lineno}: not a literal"
                fields: list[str] = []
                has_story = False
                for keyword in node.keywords:
                    if keyword.arg is None:
                        call = keyword.value
                        assert isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute)
                        fields += ids[call.func.attr]
                    elif keyword.arg == "machine":
                        has_story = True
                    elif keyword.arg != "exception":
                        fields.append(keyword.arg)
                fields += ["story"] if has_story else []
                yield LogLine(str(event.value), level, _logger_of(module), tuple(fields))


def _logger_of(module: str) -> str:
    return module.removesuffix(".py").replace("/", ".")


def _id_fields(tree: ast.Module) -> dict[str, tuple[str, ...]]:
    """Return the keys of the dictionaries that functions named ``ids`` or ``_ids`` return."""
    found = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef) and node.name in ("ids", "_ids"):
            for inner in ast.walk(node):
                if isinstance(inner, ast.Return) and isinstance(inner.value, ast.Dict):
                    keys = [k.value for k in inner.value.keys if isinstance(k, ast.Constant)]
                    found[node.name] = tuple(map(str, keys))
    return found
