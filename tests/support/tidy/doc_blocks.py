"""Parser of markdown code blocks: finds the blocks and extracts the commands that they show."""

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
    """One fenced block: its language, its text, and the number of its first line of text."""

    language: str
    text: str
    line: int


def blocks(markdown: str) -> list[Block]:
    """Return every fenced block, in order."""
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
    """Return the commands of a console block; every other line is shown output.

    A line after `$ ` is a command. It continues on lines that start with `> ` (a bare `>` is an
    empty line, as in a heredoc) and, when it ends with a backslash, on the next line, which may
    start with `> ` or not. After a line of output, `> ` is output too.
    """
    taken: list[str] = []
    is_command = is_unfinished = False
    for line in text.splitlines():
        if line.startswith("$ "):
            taken.append(line[2:])
            is_command = True
        elif is_command and (line.startswith("> ") or line == ">"):
            taken.append(line[2:])
        elif is_unfinished:
            taken.append(line)
        else:
            is_command = is_unfinished = False
            continue
        is_unfinished = line.endswith("\\")
    return "".join(f"{line}\n" for line in taken)


def links(markdown: str) -> list[str]:
    """Return the files that a markdown text links to, without their anchors."""
    prose = _FENCE.sub("", markdown)
    targets = re.findall(r"\[[^\]]*\]\(([^)\s]+)\)", prose)
    local = [target.split("#")[0] for target in targets if "://" not in target]
    return [target for target in local if target]
