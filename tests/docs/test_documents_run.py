"""Runs every code block of the documents.

The `python` blocks of one document share a namespace, top to bottom. A `bash` block runs whole, as
a reader would paste it. Of a `console` (or `sh`) block, the commands run: see
`doc_blocks.commands`. Each of these blocks is one bash. All blocks of a document run in one empty
folder, in order, with the commands of this environment first in PATH. `text` and the data languages
are shown, not run.
"""

import contextlib
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from rhumbline.chaos.managed_process import STATUS_PORT
from rhumbline.tests.support.tidy import doc_blocks, source_tree
from rhumbline.tests.support.tidy.source_tree import ROOT

RUN_BY_PYTHON = {"python"}
RUN_WHOLE_BY_BASH = {"bash"}
RUN_BY_BASH = {"console", "sh"}
SHOWN = {"text", "mermaid", "toml", "json"}
TIMEOUT_S = 280

DOCUMENTS = [
    path
    for path in source_tree.markdown_files()
    if path == Path("README.md") or path.parts[0] == "docs"
]
LONG = {
    Path("docs/how-to/archive-and-spark.md"),
    Path("docs/how-to/back-up-and-rebuild-metadata.md"),
    Path("docs/how-to/choose-a-metadata-store.md"),
    Path("docs/how-to/delete-old-data.md"),
    Path("docs/how-to/keep-namespaces-in-a-region.md"),
    Path("docs/how-to/observe.md"),
    Path("docs/how-to/rehearse-outages.md"),
    Path("docs/how-to/run-proxies.md"),
    Path("docs/how-to/secure-a-cluster.md"),
    Path("docs/how-to/survive-a-region-outage.md"),
    Path("docs/tutorials/from-the-log-to-spark.md"),
}
"""Documents that `make test-long` runs."""


def environment() -> dict[str, str]:
    """Return the reader's environment: as if this virtual environment were active.

    Spark's JVMs compile less than a reader's, which halves the time that these tests take.
    """
    folder = str(Path(sys.executable).parent)
    return {
        **os.environ,
        "PATH": folder + os.pathsep + os.environ.get("PATH", ""),
        STATUS_PORT: "0",  # pages run at the same time
        "SPARK_SUBMIT_OPTS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    }


def shell_script(block: doc_blocks.Block) -> str:
    """Return what bash runs of a block."""
    is_whole = block.language in RUN_WHOLE_BY_BASH
    return block.text if is_whole else doc_blocks.commands(block.text)


def run_markdown(text: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run the blocks of a markdown text in a folder."""
    script = as_script(Path("x.md"), doc_blocks.blocks(text))
    command = [sys.executable, "-c", script]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


def as_script(document: Path, found: list[doc_blocks.Block]) -> str:
    """Return one Python program that runs all blocks of a document in order."""
    lines = ["import subprocess", "names = {'__name__': '__main__'}"]
    for block in found:
        where = f"{document}:{block.line}"
        if block.language in RUN_BY_PYTHON:
            padded = "\n" * (block.line - 1) + block.text
            lines.append(f"exec(compile({padded!r}, {str(document)!r}, 'exec'), names)")
        elif block.language in RUN_WHOLE_BY_BASH | RUN_BY_BASH:
            command = ["bash", "-euo", "pipefail", "-c", shell_script(block), where]
            lines.append(f"print({where!r}, flush=True)")
            lines.append(f"subprocess.run({command!r}, check=True, stdin=subprocess.DEVNULL)")
    return "\n".join(lines)


@pytest.mark.parametrize(
    "document",
    [pytest.param(path, marks=[pytest.mark.long] * (path in LONG)) for path in DOCUMENTS],
    ids=str,
)
@pytest.mark.timeout(400)
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
        finally:  # end the processes that the document started, also when it failed midway
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        log.seek(0)
        assert code == 0, log.read()


@pytest.mark.parametrize("document", DOCUMENTS, ids=str)
def test_every_block_has_a_known_language(document: Path) -> None:
    for block in doc_blocks.blocks((ROOT / document).read_text()):
        where = f"{document}:{block.line}"
        assert block.language in RUN_BY_PYTHON | RUN_WHOLE_BY_BASH | RUN_BY_BASH | SHOWN, where
        if block.language in RUN_BY_BASH:
            assert doc_blocks.commands(block.text), f"{where}: no line starts with `$ `"
        if block.language in RUN_WHOLE_BY_BASH:
            prompts = [line for line in block.text.splitlines() if line.startswith("$ ")]
            assert not prompts, f"{where}: a `bash` block has no prompts; make it `console`"


@pytest.mark.parametrize("document", source_tree.markdown_files(), ids=str)
def test_links_lead_to_existing_files(document: Path) -> None:
    broken = [
        target
        for target in doc_blocks.links((ROOT / document).read_text())
        if not (ROOT / document.parent / target).exists()
    ]
    assert not broken


def test_python_blocks_of_one_document_share_their_names(tmp_path: Path) -> None:
    text = "```python\nx = 1\n```\n- item\n  ```python\n  assert x == 1\n  ```\n"
    assert run_markdown(text, tmp_path).returncode == 0


def test_failing_command_fails_the_document(tmp_path: Path) -> None:
    assert run_markdown("```console\n$ true\n```\n", tmp_path).returncode == 0
    for failing in (
        "```console\n$ true\nits output\n$ false | \\\n  cat\n```\n",
        "```console\n$ true\n> false\n```\n",
        "```bash\nfalse\ntrue\n```\n",
        "```bash\ntrue\necho $undefined_name\n```\n",
    ):
        assert run_markdown(failing, tmp_path).returncode != 0, failing


BASH_BLOCK = """\
```bash
# A comment, then a heredoc.
cat > program.py <<'END'
for word in ("a", "b"):

    print(word)
END
python program.py \\
  > output.txt
```
"""


def test_bash_block_runs_whole(tmp_path: Path) -> None:
    assert run_markdown(BASH_BLOCK, tmp_path).returncode == 0
    assert (tmp_path / "output.txt").read_text() == "a\nb\n"


CONSOLE_BLOCK = """\
```console
$ cat > program.py <<'END'
> for word in ("a", "b"):
>
>     print(word)
> END
$ for n in 1 2; do
>   python program.py
> done | tee output.txt
a
b
a
> rm output.txt
b
$ echo c \\
    >> output.txt
$ echo d \\
>   >> output.txt
```
"""


def test_console_block_runs_its_commands_and_their_continuations(tmp_path: Path) -> None:
    assert run_markdown(CONSOLE_BLOCK, tmp_path).returncode == 0
    assert (tmp_path / "output.txt").read_text() == "a\nb\na\nb\nc\nd\n"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("$ a\n$ b\n", "a\nb\n"),
        ("$ a\noutput\n", "a\n"),
        ("$ a \\\n  b\noutput\n", "a \\\n  b\n"),
        ("$ a \\\n> b\noutput\n", "a \\\nb\n"),
        ("$ a <<END\n> x\n>\n>   y\n> END\noutput\n", "a <<END\nx\n\n  y\nEND\n"),
        ("$ a\noutput\n> output\n", "a\n"),
        ("> output\noutput\n", ""),
    ],
)
def test_commands_of_a_console_block(text: str, expected: str) -> None:
    assert doc_blocks.commands(text) == expected
