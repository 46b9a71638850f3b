"""The line of each key of a TOML document, which the standard library's parser does not tell.

A document consists of statements: the header of a table, or a key with its value. Each of them is
parsed alone, line by line until it is complete. A key is a tuple of names, and of indices in arrays
of tables: ``("grants", 0, "principal")``.
"""

import tomllib
from collections.abc import Iterator, Mapping
from typing import Any

Key = tuple[str | int, ...]

STATEMENT_LINES_MAX = 200
"""Lines of one statement above which the document is not followed any further."""


def lines_of_keys(text: str) -> Mapping[Key, int]:
    """Return the first line, from 1, of each table and key of a valid document."""
    found: dict[Key, int] = {}
    lengths: dict[Key, int] = {}
    table: Key = ()
    for line, statement in _statements(text.split("\n")):
        if statement.is_header:
            table = _open_table(statement.content, lengths)
            for end in range(1, len(table) + 1):
                found.setdefault(table[:end], line)
        else:
            for key in _keys(statement.content):
                found.setdefault(table + key, line)
    return found


def line_of(lines: Mapping[Key, int], key: Key) -> int:
    """Return the line of a key, else that of the nearest table around it; 1 if none is known."""
    for end in range(len(key), 0, -1):
        if (line := lines.get(key[:end])) is not None:
            return line
    return 1


class _Statement:
    """A header, or a key with its value, parsed alone."""

    def __init__(self, text: str) -> None:
        """Raises TOMLDecodeError if the statement is not complete."""
        self.content = tomllib.loads(text)
        self.is_header = text.lstrip().startswith("[")


def _statements(lines: list[str]) -> Iterator[tuple[int, _Statement]]:
    """Yield each statement with its first line."""
    first = 0
    while first < len(lines):
        for end in range(first + 1, min(first + STATEMENT_LINES_MAX, len(lines)) + 1):
            try:
                statement = _Statement("\n".join(lines[first:end]))
            except tomllib.TOMLDecodeError:
                continue
            yield first + 1, statement
            break
        else:
            return
        first = end


def _open_table(content: Mapping[str, Any], lengths: dict[Key, int]) -> Key:
    """Return the key of the table that a header begins; ``lengths`` counts arrays of tables."""
    table: Key = ()
    value: Any = content
    while isinstance(value, dict) and value:
        ((name, value),) = value.items()
        table += (name,)
        if isinstance(value, list):
            lengths[table] = lengths.get(table, 0) + 1
        if table in lengths:
            table += (lengths[table] - 1,)
    return table


def _keys(content: Mapping[str, Any]) -> Iterator[Key]:
    """Yield each key of a statement, and those of the tables in its value."""
    for name, value in content.items():
        yield (name,)
        if isinstance(value, dict):
            yield from ((name, *key) for key in _keys(value))
