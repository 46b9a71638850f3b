"""Replaces the code of a function in a running process, wherever the function is referred to."""

import gc
from collections import defaultdict
from types import CodeType, FunctionType


class NeedsImportError(Exception):
    """A mutant can only be tried by importing its module afresh."""


class LoadedFunctions:
    """All functions of one process, by their code."""

    def __init__(self) -> None:
        self._functions: dict[CodeType, list[FunctionType]] = defaultdict(list)
        for thing in gc.get_objects():
            if isinstance(thing, FunctionType):
                self._functions[thing.__code__].append(thing)

    def replace(self, old: CodeType, new: CodeType) -> None:
        """Replace the changed functions of a module; ``old`` and ``new`` are the module's code.

        Raises NeedsImportError if that is not possible.
        """
        pairs = _changed_functions(old, new)
        if not pairs:
            raise NeedsImportError("no function differs")
        for before, after in pairs:
            functions = self._functions.get(before, [])
            if not functions:
                raise NeedsImportError(f"{before.co_qualname} is not loaded")
            for function in functions:
                if len(function.__code__.co_freevars) != len(after.co_freevars):
                    raise NeedsImportError(f"{before.co_qualname} uses other variables")
                function.__code__ = after


def _is_class_body(code: CodeType) -> bool:
    return not code.co_flags & 0x2  # class bodies and modules have no fast locals


def _children(code: CodeType) -> list[CodeType]:
    return [constant for constant in code.co_consts if isinstance(constant, CodeType)]


def _changed_functions(old: CodeType, new: CodeType) -> list[tuple[CodeType, CodeType]]:
    """Return the outermost functions that differ, descending through classes only."""
    before, after = _children(old), _children(new)
    if [code.co_name for code in before] != [code.co_name for code in after]:
        raise NeedsImportError("the module has other functions")
    pairs = []
    for one, other in zip(before, after, strict=True):
        if one == other:
            continue
        if _is_class_body(one):
            pairs += _changed_functions(one, other)
        else:
            pairs.append((one, other))
    return pairs
