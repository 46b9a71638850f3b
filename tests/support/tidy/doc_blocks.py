"""Reads the code blocks of a markdown text."""

import re
from dataclasses import dataclass

# A fence may be indented (in a list); it closes with as many backticks as it opened with.
_FENCE = re.compile(
    r"^(?P<indent> *)(?P<ticks>`{3,})(?P<language>[^\n`]*)\n"
    r"(?P<body>.*?)"
    r"^(?P=indent)(?P=ticks)[ ]*$",
    re.MULTILINE | re.DOTALL,
)


@dataclass(frozen=True, slots=True)
class Block:
    """One fenced block: its language, its text, and the line of its first line of text."""

    language: str
    text: str
    line: int


def blocks(markdown: str) -> list[Block]:
    """Every fenced block, in order."""
    found = []
    for match in _FENCE.finditer(markdown):
        indent = match["indent"]
        text = "".join(
            line.removeprefix(indent) for line in match["body"].splitlines(keepends=True)
        )
        line = markdown.count("\n", 0, match.start("body")) + 1
        found.append(Block(match["language"].strip(), text, line))
    return found


def commands(text: str) -> str:
    """The commands of a console block: lines after `$ `, and those that continue them."""
    taken: list[str] = []
    continued = False
    for line in text.splitlines():
        if line.startswith("$ ") or continued:
            taken.append(line if continued else line[2:])
            continued = line.endswith("\\")
    return "".join(f"{line}\n" for line in taken)


def links(markdown: str) -> list[str]:
    """The files that a markdown text links to, without their anchors."""
    prose = _FENCE.sub("", markdown)
    targets = re.findall(r"\[[^\]]*\]\(([^)\s]+)\)", prose)
    local = [target.split("#")[0] for target in targets if "://" not in target]
    return [target for target in local if target]
