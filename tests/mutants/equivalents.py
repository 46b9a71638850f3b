"""The reviewed list of mutants that behave like the original: `equivalent.toml`."""

import tomllib
from pathlib import Path

from rhumbline.tests.mutants.mutation import Mutant

PATH = Path(__file__).with_name("equivalent.toml")
FIELDS = ("module", "function", "operator", "before", "after")


def read_equivalents(path: Path = PATH) -> dict[tuple[str, ...], str]:
    """Return the reason for each mutant that was judged equivalent, by the mutant's key."""
    rows = tomllib.loads(path.read_text()).get("mutant", [])
    return {tuple(row[name] for name in FIELDS): row["reason"] for row in rows}


def row_of(mutant: Mutant) -> str:
    """Return the row that lists a mutant, without its reason."""
    values = [f"{name} = {_quoted(value)}" for name, value in zip(FIELDS, mutant.key, strict=True)]
    return "\n".join(["[[mutant]]", *values, 'reason = ""', ""])


def _quoted(text: str) -> str:
    if "'" not in text:
        return f"'{text}'"
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
