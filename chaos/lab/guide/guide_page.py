"""The commands of a guide: each block says in its first line on which hosts it runs."""

import re
from typing import NamedTuple

_HEADING = re.compile(r"^## (.+)$")
_HOSTS = re.compile(r"^# on (.+)$")


class GuideBlock(NamedTuple):
    """A block of commands."""

    section: str
    hosts: tuple[str, ...]
    commands: str


def read_guide(text: str) -> list[GuideBlock]:
    """Return the blocks of a page in order; those that name no hosts are only shown."""
    found: list[GuideBlock] = []
    section = ""
    block: list[str] | None = None
    for line in text.splitlines():
        heading = _HEADING.match(line)
        if block is None and heading:
            section = heading[1]
        elif block is None and line == "```text":
            block = []
        elif block is not None and line == "```":
            hosts = _HOSTS.match(block[0]) if block else None
            if hosts is not None:
                commands = "\n".join(block[1:]) + "\n"
                found.append(GuideBlock(section, tuple(hosts[1].split()), commands))
            block = None
        elif block is not None:
            block.append(line)
    return found
