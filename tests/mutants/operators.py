"""Operators: the ways in which a piece of source is changed to make a mutant.

Most of them are mutmut's, which are plain functions from a syntax node to its mutations. Two more
are added, because state machines depend on them: a statement that calls something is deleted, and
a condition without an operator of its own is negated.
"""

from collections.abc import Callable, Iterable
from typing import Any

import libcst as cst
from mutmut.mutation import mutators

_HAVE_OPERATORS_OF_THEIR_OWN = (cst.Comparison, cst.BooleanOperation, cst.UnaryOperation)
_CONDITIONALS = (cst.If, cst.While, cst.IfExp, cst.CompIf)


def delete_statement(node: cst.Expr) -> Iterable[cst.CSTNode]:
    """Delete a call whose result is not used."""
    value = node.value.expression if isinstance(node.value, cst.Await) else node.value
    if isinstance(value, cst.Call):
        yield cst.Pass()


def negate_condition(node: cst.BaseExpression) -> Iterable[cst.CSTNode]:
    """Negate a condition; mutmut's operators already change comparisons, and, or, not."""
    if not isinstance(node, _HAVE_OPERATORS_OF_THEIR_OWN):
        inner = cst.ensure_type(cst.parse_expression("(x)"), cst.Name).lpar
        outer = cst.ensure_type(cst.parse_expression("(x)"), cst.Name).rpar
        is_tight = isinstance(node, cst.Name | cst.Attribute | cst.Call | cst.Subscript)
        operand = node if is_tight or node.lpar else node.with_changes(lpar=inner, rpar=outer)
        yield cst.UnaryOperation(cst.Not(), operand)


def _first_of_string(node: cst.BaseString) -> Iterable[cst.CSTNode]:
    """Change a string once; other cases of the same letters tell nothing more."""
    yield from list(mutators.operator_string(node))[:1]


def _argument_removal(node: cst.Call) -> Iterable[cst.CSTNode]:
    """Remove an argument. None instead of an argument is left out: mypy reports nearly all."""
    mutations = list(mutators.operator_arg_removal(node))
    return [call for call in mutations if len(call.args) < len(node.args)]


_REPLACED: dict[Callable[..., Any], Callable[[Any], Iterable[cst.CSTNode]]] = {
    mutators.operator_string: _first_of_string,
    mutators.operator_arg_removal: _argument_removal,
}


def mutations(node: cst.CSTNode, parent: cst.CSTNode | None) -> Iterable[tuple[str, cst.CSTNode]]:
    """Return the mutations of one node, each with the name of its operator."""
    for kind, operator in mutators.mutation_operators:
        if isinstance(node, kind):
            name = operator.__name__.removeprefix("operator_")
            for mutated in _REPLACED.get(operator, operator)(node):
                yield name, mutated
    if isinstance(node, cst.Expr):
        yield from (("delete_statement", mutated) for mutated in delete_statement(node))
    if isinstance(parent, _CONDITIONALS) and parent.test is node:
        assert isinstance(node, cst.BaseExpression)
        yield from (("negate_condition", mutated) for mutated in negate_condition(node))
