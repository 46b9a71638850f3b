"""Exclusions: syntax nodes whose mutation cannot matter, or that other checks of the project cover.

Each exclusion has a reason, which the page of mutants lists with the number of mutants left out.
"""

import re
from pathlib import Path

import libcst as cst
import libcst.matchers as m

DOCSTRING = "docstrings and other strings that are statements"
ANNOTATION = "type annotations, types passed to `cast`, names of type variables"
IMPORT = "imports, and code for type checking only"
SLOTS = "`__slots__`, `__all__`"
DATACLASS = "`slots`, `frozen` and `repr` of dataclasses: mypy reports what they forbid"
ASSERTION = "assertions: no test can make them false, because they hold in every reachable state"
TEXT = "texts of errors, warnings and log lines"
REPR = "`__repr__`"
ENUM = "values of enumerations that are never decoded: only the identity of a member matters"
DEFAULT = "default values of settings: docs/reference/config.md is compared with them"

_STRING = m.SimpleString() | m.FormattedString() | m.ConcatenatedString()
_TYPE_ALIAS = m.Assign(value=m.Subscript(value=m.Name("Literal") | m.Name("Callable")))
_UNION_OF = m.BinaryOperation(operator=m.BitOr(), right=m.Name(m.MatchRegex("[A-Z][a-z].*")))
_UNION = m.Assign(value=_UNION_OF)
_TYPE_CHECKING = m.If(test=m.Name("TYPE_CHECKING"))
_DUNDER_LIST = m.Assign(targets=[m.AssignTarget(target=m.Name("__slots__") | m.Name("__all__"))])
_LOG_METHODS = {"debug", "info", "warning", "error", "exception", "critical", "log"}
_NAMED_TYPES = {"cast", "NewType", "TypeVar"}
_TEXT_FUNCTIONS = {"warn", "add_damage"}
_APPEND_FAULT = m.Attribute(value=m.Name("faults"), attr=m.Name("append"))
_FIELD_OPTIONS = m.Arg(keyword=m.Name("slots") | m.Name("frozen") | m.Name("repr"))

_PATTERNS: list[tuple[m.BaseMatcherNode, str]] = [
    (_TYPE_ALIAS | _UNION, ANNOTATION),
    (_TYPE_CHECKING, IMPORT),
    (_DUNDER_LIST, SLOTS),
    (_FIELD_OPTIONS, DATACLASS),
]


def reason_to_exclude(node: cst.CSTNode, parent: cst.CSTNode | None) -> str | None:
    """Return why a node and all that is below it are not mutated, or None."""
    match node:
        case cst.Expr(value=cst.SimpleString() | cst.ConcatenatedString()):
            return DOCSTRING
        case cst.Annotation() | cst.TypeAlias() | cst.TypeParameters():
            return ANNOTATION
        case cst.Import() | cst.ImportFrom():
            return IMPORT
        case cst.Assert():
            return ASSERTION
        case cst.FunctionDef(name=cst.Name(value="__repr__")):
            return REPR
    for pattern, reason in _PATTERNS:
        if m.matches(node, pattern):
            return reason
    if isinstance(parent, cst.Call) and isinstance(node, cst.Arg):
        return _reason_of_argument(node, parent)
    return None


def _called_name(call: cst.Call) -> str:
    match call.func:
        case cst.Name(value=name) | cst.Attribute(attr=cst.Name(value=name)):
            return name
    return ""


def _is_text(node: cst.BaseExpression) -> bool:
    """True for a string, for strings that are added, and for a join of strings."""
    match node:
        case cst.BinaryOperation(left=left, right=right):
            return _is_text(left) or _is_text(right)
        case cst.Call(func=cst.Attribute(value=value, attr=cst.Name(value="join"))):
            return _is_text(value)
        case cst.IfExp(body=body, orelse=orelse):
            return _is_text(body) or _is_text(orelse)
    return m.matches(node, _STRING)


def _reason_of_argument(argument: cst.Arg, call: cst.Call) -> str | None:
    name = _called_name(call)
    is_report = name.endswith("Error") or name in _LOG_METHODS | _TEXT_FUNCTIONS
    is_report |= m.matches(call.func, _APPEND_FAULT)
    if is_report and _is_text(argument.value):
        return TEXT
    if name in _NAMED_TYPES and argument is call.args[0]:
        return ANNOTATION
    return None


def internal_enumerations(root: Path, product: str) -> set[str]:
    """Return the names of the plain enumerations of the product that are never decoded."""
    sources = [path.read_text() for path in sorted((root / product).rglob("*.py"))]
    names = {name for text in sources for name in re.findall(r"^class (\w+)\(Enum\)", text, re.M)}
    decoded = {name for text in sources for name in re.findall(r"(?<!class )\b(\w+)\(", text)}
    return names - decoded


def reason_of_mutation(
    node: cst.CSTNode, mutated: cst.CSTNode, module: str, is_class_level: bool
) -> str | None:
    """Return why one mutation of a node is left out, although others at or below it are not."""
    match node:
        case cst.Call(args=arguments):
            kept = mutated.args if isinstance(mutated, cst.Call) else ()
            for removed in (item for item in arguments if all(item is not one for one in kept)):
                if reason := reason_to_exclude(removed, node):
                    return reason
            if _called_name(node) in _LOG_METHODS:
                return TEXT
        case cst.Expr(value=cst.Call() as call) if _called_name(call) in _LOG_METHODS:
            return TEXT
    if module.endswith("config.py") and is_class_level:
        return DEFAULT
    return None
