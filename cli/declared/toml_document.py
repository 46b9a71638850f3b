"""One TOML file, with the line of each key for messages about it."""

import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

from ...client.settings_table import suggestion
from ...core.log.metadata.paths import check_name
from ...core.protocol.errors import InvalidArgumentError
from .declared_state import SourceLine, short_name
from .toml_lines import Key, line_of, lines_of_keys

DOCUMENT_BYTES_MAX = 4 << 20
"""Maximum size of one file."""

T = TypeVar("T")


class TomlDocument:
    """A TOML file with the lines of its keys. What is wrong in it is added to a common list."""

    def __init__(self, file: str, content: bytes, faults: list[str]) -> None:
        name = self.name = short_name(file)
        self._faults = faults
        self.table: dict[str, Any] = {}
        self._lines: Mapping[Key, int] = {}
        self.is_parsed = False
        if len(content) > DOCUMENT_BYTES_MAX:
            faults.append(f"{name}: {len(content)} bytes, above the limit of {DOCUMENT_BYTES_MAX}")
            return
        try:
            text = content.decode("utf-8").replace("\r\n", "\n")
            self.table = tomllib.loads(text)
        except (UnicodeDecodeError, tomllib.TOMLDecodeError, RecursionError) as error:
            faults.append(f"{name}: invalid TOML: {str(error) or 'nested too deeply'}")
            return
        self._lines = lines_of_keys(text)
        self.is_parsed = True

    def place(self, key: Key) -> SourceLine:
        """Return the line of a key."""
        return SourceLine(self.name, line_of(self._lines, key))

    def fault(self, key: Key, text: str) -> None:
        """Note that a key is wrong."""
        self._faults.append(f"{self.place(key)}: {text}")

    def checked(self, key: Key, read: Callable[..., T], *arguments: Any) -> T | None:  # noqa: ANN401
        """Return ``read(*arguments)``; None if it raises InvalidArgumentError, which is noted."""
        try:
            return read(*arguments)
        except InvalidArgumentError as error:
            self.fault(key, str(error))
            return None

    def tables(
        self, table: Mapping[str, Any], key: Key, kind: str
    ) -> Iterator[tuple[str, dict[str, Any], Key]]:
        """Yield each table below a key with its name, which must be a valid name."""
        for name, value in table.items():
            where = (*key, name)
            if not isinstance(value, dict):
                self.fault(where, f"{kind} {name} is not a table")
            elif self.checked(where, check_name, kind, name) is not None:
                yield name, value, where

    def child(self, table: Mapping[str, Any], name: str, key: Key) -> dict[str, Any] | None:
        """Return a table inside of another; None if it is absent or not a table."""
        value = table.get(name)
        if value is not None and not isinstance(value, dict):
            self.fault((*key, name), f"{name} is not a table")
            return None
        return value

    def refuse_unknown(self, table: Mapping[str, Any], known: Sequence[str], key: Key) -> None:
        """Note each key of a table that is not one of ``known``."""
        for name in table:
            if name not in known:
                self.fault((*key, name), f"unknown key {name}{suggestion(name, known)}")
