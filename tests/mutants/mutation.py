"""Mutants: one module's source with one small change each."""

from collections import Counter
from collections.abc import Set
from dataclasses import dataclass, field
from pathlib import Path

import libcst as cst
from libcst.metadata import MetadataWrapper, PositionProvider, WhitespaceInclusivePositionProvider

from rhumbline.tests.mutants import exclusions, operators

Change = tuple[int, int, str]
"""Start and end in the module's source, and the text that replaces what is between them."""


@dataclass(frozen=True, slots=True)
class Mutant:
    """One change of one module."""

    module: str
    """Path of the module relative to the root, for example `core/protocol/quorum.py`."""
    function: str
    """Qualified name of the enclosing function or class, or "" at the level of the module."""
    operator: str
    line: int
    """First line of what is changed; lines are counted from 1."""
    lines: tuple[int, int]
    """First and last line of the statement, or of the head of the compound statement."""
    before: str
    """The lines that are changed, in one line."""
    after: str
    change: Change = field(repr=False)
    is_in_function: bool = True
    """False if the change takes effect when the module is imported."""

    def mutated(self, source: str) -> str:
        """Return the mutated source of the module."""
        start, end, text = self.change
        return source[:start] + text + source[end:]

    @property
    def key(self) -> tuple[str, str, str, str, str]:
        """Return what identifies the mutant as long as its lines stay the same."""
        return (self.module, self.function, self.operator, self.before, self.after)

    def __str__(self) -> str:
        where = f"{self.module}:{self.line} {self.function} [{self.operator}]"
        return f"{where}\n  - {self.before}\n  + {self.after}"


@dataclass(slots=True)
class Mutants:
    """All mutants of one module, and how many were left out for which reason."""

    module: str
    mutants: list[Mutant] = field(default_factory=list)
    left_out: Counter[str] = field(default_factory=Counter)


def find_mutants(root: Path, module: str, enumerations: Set[str] = frozenset()) -> Mutants:
    """Return the mutants of a module; values of members of ``enumerations`` are left out."""
    source = (root / module).read_text()
    wrapper = MetadataWrapper(cst.parse_module(source))
    found = _Finder(module, source, wrapper.module, enumerations)
    wrapper.visit(found)
    return found.result


class _Finder(cst.CSTVisitor):
    """Visits a module and collects its mutants."""

    METADATA_DEPENDENCIES = (PositionProvider, WhitespaceInclusivePositionProvider)

    def __init__(self, module: str, source: str, tree: cst.Module, enumerations: Set[str]) -> None:
        super().__init__()
        self._tree = tree
        self._enumerations = enumerations
        self.result = Mutants(module)
        self._source = source
        self._lines = source.splitlines(keepends=True)
        self._starts = [0]
        for line in self._lines:
            self._starts.append(self._starts[-1] + len(line))
        self._stack: list[cst.CSTNode] = []
        self._excluded: list[str] = []
        self._seen: set[Change] = set()

    def on_visit(self, node: cst.CSTNode) -> bool:
        parent = self._stack[-1] if self._stack else None
        self._stack.append(node)
        reason = exclusions.reason_to_exclude(node, parent)
        if reason is not None:
            self._excluded.append(reason)
        for operator, mutated in operators.mutations(node, parent):
            self._add(node, operator, mutated)
        if reason is not None:
            # The nodes below are visited only to count what is left out.
            self._count_below(node, reason)
            self._excluded.pop()
        return reason is None

    def on_leave(self, node: cst.CSTNode) -> None:
        self._stack.pop()

    def _count_below(self, node: cst.CSTNode, reason: str) -> None:
        for child in node.children:
            self.result.left_out[reason] += sum(1 for _ in operators.mutations(child, node))
            self._count_below(child, reason)

    def _add(self, node: cst.CSTNode, operator: str, mutated: cst.CSTNode) -> None:
        is_class_level = not self._function_depth() and bool(self._names())
        reason = self._excluded[-1] if self._excluded else None
        reason = reason or exclusions.reason_of_mutation(
            node, mutated, self.result.module, is_class_level
        )
        if is_class_level and self._names()[-1] in self._enumerations:
            reason = exclusions.ENUM
        if reason is not None:
            self.result.left_out[reason] += 1
            return
        mutant = self._make(node, operator, mutated)
        if mutant is not None:
            self.result.mutants.append(mutant)

    def _make(self, node: cst.CSTNode, operator: str, mutated: cst.CSTNode) -> Mutant | None:
        change = self._change(node, mutated)
        if change in self._seen or self._source[change[0] : change[1]] == change[2]:
            return None
        self._seen.add(change)
        position = self.get_metadata(PositionProvider, node)
        first, last = position.start.line, position.end.line
        head = self._source[self._starts[first - 1] : change[0]]
        tail = self._source[change[1] : max(change[1], self._starts[last])]
        return Mutant(
            module=self.result.module,
            function=".".join(self._names()),
            operator=operator,
            line=first,
            lines=self._statement_lines(first, last),
            before=_in_one_line(self._lines[first - 1 : last]),
            after=_in_one_line(f"{head}{change[2]}{tail}".splitlines()),
            change=change,
            is_in_function=self._function_depth() > 0,
        )

    def _change(self, node: cst.CSTNode, mutated: cst.CSTNode) -> Change:
        """Return the change that replaces a node.

        The indentation of further lines of an expression has no meaning, so it may differ.
        """
        if isinstance(node, cst.Match):
            tree = cst.ensure_type(self._tree.deep_replace(node, mutated), cst.Module)
            return (0, len(self._source), tree.code)
        span = self.get_metadata(WhitespaceInclusivePositionProvider, node)
        start = self._starts[span.start.line - 1] + span.start.column
        end = self._starts[span.end.line - 1] + span.end.column
        return (start, end, self._tree.code_for_node(mutated))

    def _names(self) -> list[str]:
        """Return the names of the classes and functions whose body holds the current node."""
        names = []
        for node, below in zip(self._stack, self._stack[1:], strict=False):
            if isinstance(node, cst.FunctionDef | cst.ClassDef) and below is node.body:
                names.append(node.name.value)
        return names

    def _function_depth(self) -> int:
        return sum(
            isinstance(node, cst.FunctionDef) and below is node.body
            for node, below in zip(self._stack, self._stack[1:], strict=False)
        )

    def _statement_lines(self, first: int, last: int) -> tuple[int, int]:
        for node in reversed(self._stack):
            if isinstance(node, cst.SimpleStatementLine):
                position = self.get_metadata(PositionProvider, node)
                return position.start.line, position.end.line
            if isinstance(node, cst.BaseCompoundStatement):
                break
        return first, last


def _in_one_line(lines: list[str]) -> str:
    return " ".join(line.strip() for line in lines).strip()
