"""The documentation site builds without a warning and documents the public API."""

import importlib
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from rhumbline.tests.support.tidy.source_tree import ROOT
from rhumbline.tests.tidy.test_public_api import PUBLIC


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The built site. The build is strict: broken links and anchors are warnings and fail it."""
    folder = tmp_path_factory.mktemp("site")
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--quiet", "--site-dir", folder],
        cwd=ROOT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


@pytest.mark.long
def test_site_describes_every_public_name(site: Path) -> None:
    for name in PUBLIC:
        page = (site / f"reference/api/{name.rpartition('.')[2]}.html").read_text()
        anchors = set(re.findall(r'id="(rhumbline[\w.]*)"', page))
        exported = set(importlib.import_module(name).__all__) - {"__version__"}
        modules = {public.rpartition(".")[2] for public in PUBLIC}
        missing = {one for one in exported - modules if f"{name}.{one}" not in anchors}
        assert not missing, f"{name}: {sorted(missing)}"


@pytest.mark.long
def test_site_loads_nothing_from_other_hosts(site: Path) -> None:
    page = (site / "index.html").read_text()
    loaded = re.findall(r'<(?:script|link|img)[^>]+(?:src|href)="(https?://[^"]+)"', page)
    assert loaded == []
