"""Checks of prose, names and citations that a program can make (docs/contributing/style.md)."""

import ast
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path

FRAGMENT = re.compile(r"(?:Of|Whom|Who|What|How|Whether)\b|For who\b")
"""First words of a docstring that is a fragment: its subject is missing."""

BANNED = {
    r"\bfor who\b": "lets callers ..., for a process that ...",
    r"\b(?:by|of|to|with) who\b": "name the component",
    r"(?<!there )\bis no (?!(?:longer|more|less|larger|smaller|later|other)\b)": "is not a",
    r"\bh(?:ung|angs?) up\b": "close the connection",
    r"\bagain and again\b": "repeatedly, until ...",
    r"\bgives? up on who\b": "stops waiting for the process that",
    r"\bhears? of\b": "is notified of",
    r"\bhas a say\b": "counts in the decision",
    r"\bin its turn\b": "in order",
    r"\blooked whether\b": "check whether",
    r"\bof ours\b": "name the component",
    r"\bmend(?:s|ed|ing)?\b": "repair",
}
"""Wordings that a native engineer stumbles over, each with what to write instead."""

# A citation may be an enumeration: several numbers after one "bugs" or "invariants".
_RULE = re.compile(r"\b(?:LED|BKE|REC|RPR|STR|PLC|PRX|SEC|CON)-\d+\b")
_BUGS = re.compile(r"(?:\bbugs?\s+|\()(B\d{1,2}\b(?:(?:,\s+|\s+and\s+)B\d{1,2}\b)*)")
_INVARIANTS = re.compile(r"\binvariants?\s+([LVRG]\d+\b(?:(?:,\s+|\s+and\s+)[LVRG]\d+\b)*)")
_ANCHOR = re.compile(r'<a id="([^"]+)">')


def docstrings(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Yield the line and text of each docstring: of the module, classes, functions, attributes."""
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        for statement in body if isinstance(body, list) else []:  # of a lambda it is an expression
            match statement:
                case ast.Expr(value=ast.Constant(value=str(text))):
                    yield statement.lineno, text


def fragments(tree: ast.Module) -> list[str]:
    """Return the docstrings that begin as a fragment, each as `line: beginning`."""
    found = sorted(docstrings(tree))
    return [f"{line}: {text[:60]!r}" for line, text in found if FRAGMENT.match(text.lstrip())]


def banned_wordings(tree: ast.Module) -> list[str]:
    """Return the banned wordings in string literals, each as `line: wording -> replacement`."""
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            text = " ".join(node.value.split())
            for wording, replacement in BANNED.items():
                for match in re.finditer(wording, text, re.IGNORECASE):
                    around = text[max(0, match.start() - 20) : match.end() + 20]
                    found.append((node.lineno, f"...{around}... -> write {replacement!r}"))
    return [f"{line}: {text}" for line, text in sorted(found)]


def shared_class_names(modules: Iterable[tuple[Path, ast.Module]]) -> dict[str, list[str]]:
    """Return the names that two or more public top-level classes share, with their modules."""
    places: dict[str, list[str]] = defaultdict(list)
    for path, tree in modules:
        for statement in tree.body:
            if isinstance(statement, ast.ClassDef) and not statement.name.startswith("_"):
                places[statement.name].append(str(path))
    return {name: paths for name, paths in places.items() if len(paths) > 1}


def is_named_after_a_module(test: Path, product: set[Path]) -> bool:
    """True if `tests/unit/a/b/test_x[_aspect].py` has a module `a/b/x.py` or a package `x`.

    The package is the folder `a/b` itself (its last part is then `x`) or a folder in it.
    """
    folder = test.relative_to("tests/unit").parent
    words = test.stem.removeprefix("test_").split("_")
    prefixes = {"_".join(words[:count]) for count in range(1, len(words) + 1)}
    modules = {path.stem for path in product if path.parent == folder}
    packages = {path.parent.name for path in product if path.parent.parent == folder}
    return bool(prefixes & (modules | packages | {folder.name}))


def citations(text: str) -> list[tuple[int, str]]:
    """Return the line and id of each citation of a rule, a bug or an invariant."""
    found = []
    for match in _RULE.finditer(text):
        found.append((match.start(), match[0]))
    for pattern in (_BUGS, _INVARIANTS):
        for match in pattern.finditer(text):
            found += [(match.start(), cited) for cited in re.findall(r"[A-Z]\d+", match[1])]
    return [(text.count("\n", 0, at) + 1, cited) for at, cited in sorted(found)]


def anchors(text: str) -> list[str]:
    """Return the ids of the explicit HTML anchors of a markdown text."""
    return _ANCHOR.findall(text)
