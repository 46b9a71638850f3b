"""The sections of the runbook as the console shows them beside alerts."""

import json
import re
from pathlib import Path

RUNBOOK = "how-to/runbook.md"
CONSOLE_RUNBOOK = Path(__file__).parents[1] / "console/pages/runbook.json"

_SECTION = re.compile(r"^### (\w+)\n\n(.*?)(?=^##|\Z)", re.MULTILINE | re.DOTALL)
_PART = re.compile(r"^- \*\*(\w+)\*\*: (.*?)(?=^- \*\*|\Z)", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\[([^\]]*)\]\([^)]*\)")


def runbook_document(page: str) -> str:
    """Return the sections of the runbook by alert, each with its parts, as JSON.

    Links become their texts; code keeps its backticks.
    """
    sections = {
        name: {part: " ".join(_LINK.sub(r"\1", text).split()) for part, text in _PART.findall(body)}
        for name, body in _SECTION.findall(page)
    }
    return json.dumps(sections, indent=1, ensure_ascii=False) + "\n"
