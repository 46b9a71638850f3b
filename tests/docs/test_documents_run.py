"""Every code block in the documents runs.

The `python` blocks of one document share a namespace, top to bottom; of `console` and `sh` blocks,
the lines after `$ ` run in one bash each. All run in an empty folder, with the commands of this
environment first in PATH, in the order in which a reader meets them. `text` is shown, not run.
"""

import contextlib
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from rhumbline.tests.support.tidy import doc_blocks, source_tree
from rhumbline.tests.support.tidy.source_tree import ROOT

RUN_BY_PYTHON = {"python"}
RUN_BY_BASH = {"console", "sh"}
SHOWN = {"text", "mermaid", "toml", "json"}
TIMEOUT_S = 100

DOCUMENTS = [
    path
    for path in source_tree.markdown_files()
    if path == Path("README.md") or path.parts[0] == "docs"
]


def environment() -> dict[str, str]:
    """The reader's environment: as if this virtual environment were active.

    Spark's JVMs compile less than a reader's, which halves what they cost here.
    """
    folder = str(Path(sys.executable).parent)
    return {
        **os.environ,
        "PATH": folder + os.pathsep + os.environ.get("PATH", ""),
        "SPARK_SUBMIT_OPTS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    }


def as_script(document: Path, found: list[doc_blocks.Block]) -> str:
    """One Python program that runs all blocks of a document in order."""
    lines = ["import subprocess", "names = {'__name__': '__main__'}"]
    for block in found:
        where = f"{document}:{block.line}"
        if block.language in RUN_BY_PYTHON:
            padded = "\n" * (block.line - 1) + block.text
            lines.append(f"exec(compile({padded!r}, {str(document)!r}, 'exec'), names)")
        elif block.language in RUN_BY_BASH:
            script = doc_blocks.commands(block.text)
            command = ["bash", "-euo", "pipefail", "-c", script, where]
            lines.append(f"print({where!r}, flush=True)")
            lines.append(f"subprocess.run({command!r}, check=True, stdin=subprocess.DEVNULL)")
    return "\n".join(lines)


@pytest.mark.parametrize("document", DOCUMENTS, ids=str)
def test_document_runs(document: Path, tmp_path: Path) -> None:
    found = doc_blocks.blocks((ROOT / document).read_text())
    with (tmp_path.parent / f"{tmp_path.name}.log").open("w+") as log:
        process = subprocess.Popen(
            [sys.executable, "-c", as_script(document, found)],
            cwd=tmp_path,
            env=environment(),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
        try:
            code = process.wait(TIMEOUT_S)
        finally:  # what the document started ends with it, also when it failed half-way
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        log.seek(0)
        assert code == 0, log.read()


@pytest.mark.parametrize("document", DOCUMENTS, ids=str)
def test_every_block_says_how_it_is_read(document: Path) -> None:
    for block in doc_blocks.blocks((ROOT / document).read_text()):
        where = f"{document}:{block.line}"
        assert block.language in RUN_BY_PYTHON | RUN_BY_BASH | SHOWN, where
        if block.language in RUN_BY_BASH:
            assert doc_blocks.commands(block.text), f"{where}: no line starts with `$ `"


@pytest.mark.parametrize("document", source_tree.markdown_files(), ids=str)
def test_links_lead_somewhere(document: Path) -> None:
    broken = [
        target
        for target in doc_blocks.links((ROOT / document).read_text())
        if not (ROOT / document.parent / target).exists()
    ]
    assert not broken


def test_blocks_of_one_document_share_their_names(tmp_path: Path) -> None:
    text = "```python\nx = 1\n```\n- item\n  ```python\n  assert x == 1\n  ```\n"
    script = as_script(Path("x.md"), doc_blocks.blocks(text))
    subprocess.run([sys.executable, "-c", script], cwd=tmp_path, check=True)


def test_failing_command_fails_the_document(tmp_path: Path) -> None:
    text = "```console\n$ true\nits output\n$ false | \\\n  cat\n```\n"
    script = as_script(Path("x.md"), doc_blocks.blocks(text))
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=tmp_path, capture_output=True, check=False
    )
    assert done.returncode != 0
