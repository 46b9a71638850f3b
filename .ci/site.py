"""A hook of the documentation site: files of the repository's root become pages of the site.

The guide for contributors, the changelog and the policies stay at the root, where hosting sites
look for them. Their links to `docs/` and to each other are rewritten for their place in the site.
"""

import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

ROOT = Path(__file__).resolve().parent.parent
PAGES = {
    "CONTRIBUTING.md": "contributing/index.md",
    "CHANGELOG.md": "contributing/changelog.md",
    "SECURITY.md": "contributing/security.md",
    "CODE_OF_CONDUCT.md": "contributing/code-of-conduct.md",
}
_LINK = re.compile(r"\]\((?!https?:|#)([^)#\s]+)(#[^)\s]*)?\)")


def site_text(text: str) -> str:
    """The text of a root file with its links as seen from the folder `contributing`."""

    def rewritten(match: re.Match[str]) -> str:
        target, anchor = match.group(1), match.group(2) or ""
        if target in PAGES:
            target = Path(PAGES[target]).name
        elif target == "README.md":
            target = "../index.md"
        elif target.startswith("docs/"):
            target = "../" + target.removeprefix("docs/")
        return f"]({target}{anchor})"

    return _LINK.sub(rewritten, text)


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Adds the pages; MkDocs calls this once it has collected its own."""
    for name, uri in PAGES.items():
        text = site_text((ROOT / name).read_text(encoding="utf-8"))
        files.append(File.generated(config, uri, content=text))
    return files
