import tomllib
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from rhumbline.cli.declared.toml_lines import STATEMENT_LINES_MAX, Key, line_of, lines_of_keys

TEXT = '''# a comment
regions = [
  "eu",  # [not.a.header]
  "us",
]
note = """
[not.a.header]
"""

[namespaces."a.b"]
store = "eu"
[namespaces."a.b".policy]
quorum = "3/3/2"
flush = { period_ms = 1, bytes_max = 2 }

[[grants]]
principal = "one"
  [[grants]]
principal = "two"
[grants.inner]
x.y = 1
'''


def test_each_key_has_the_line_of_its_statement() -> None:
    lines = lines_of_keys(TEXT)
    assert lines == {
        ("regions",): 2,
        ("note",): 6,
        ("namespaces",): 10,
        ("namespaces", "a.b"): 10,
        ("namespaces", "a.b", "store"): 11,
        ("namespaces", "a.b", "policy"): 12,
        ("namespaces", "a.b", "policy", "quorum"): 13,
        ("namespaces", "a.b", "policy", "flush"): 14,
        ("namespaces", "a.b", "policy", "flush", "period_ms"): 14,
        ("namespaces", "a.b", "policy", "flush", "bytes_max"): 14,
        ("grants",): 16,
        ("grants", 0): 16,
        ("grants", 0, "principal"): 17,
        ("grants", 1): 18,
        ("grants", 1, "principal"): 19,
        ("grants", 1, "inner"): 20,
        ("grants", 1, "inner", "x"): 21,
        ("grants", 1, "inner", "x", "y"): 21,
    }


def test_an_unknown_key_has_the_line_of_the_table_around_it() -> None:
    lines = lines_of_keys(TEXT)
    assert line_of(lines, ("namespaces", "a.b", "policy", "codec")) == 12
    assert line_of(lines, ("quotas", "x")) == 1


def test_a_statement_of_too_many_lines_ends_the_search() -> None:
    long = "\n".join(["x = [", *["1,"] * STATEMENT_LINES_MAX, "]", "y = 1"])
    assert tomllib.loads(long)["y"] == 1
    assert lines_of_keys(f"a = 1\n{long}") == {("a",): 1}


NAMES = st.text("ab.\"'", min_size=1, max_size=3)
TABLES = st.dictionaries(NAMES, st.dictionaries(NAMES, st.integers(), max_size=3), max_size=4)


@given(TABLES)
def test_every_key_of_a_document_is_found(tables: dict[str, dict[str, int]]) -> None:
    def quoted(name: str) -> str:
        return '"' + name.replace('"', '\\"') + '"'

    lines: list[str] = []
    expected: dict[Key, int] = {}
    for name, content in tables.items():
        lines.append(f"[{quoted(name)}]")
        expected[(name,)] = len(lines)
        for key, value in content.items():
            lines.append(f"{quoted(key)} = {value}")
            expected[(name, key)] = len(lines)
    text = "\n".join(lines)
    parsed: dict[str, Any] = tomllib.loads(text)
    assert parsed == tables
    assert lines_of_keys(text) == expected
