"""The software bill of materials lists what the product needs, as it is locked."""

import json
import re
import subprocess
import sys
from pathlib import Path

from rhumbline.tests.support.tidy.source_tree import ROOT


def test_the_sbom_lists_each_locked_dependency_with_its_hashes(tmp_path: Path) -> None:
    target = (ROOT / "Makefile").read_text().partition("\nsbom:")[2].partition(" -o ")[0]
    arguments = target.partition("cyclonedx_py ")[2].replace("\\", " ").split()
    file = tmp_path / "sbom.json"
    command = [sys.executable, "-m", "cyclonedx_py", *arguments, "-o", str(file)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    found = json.loads(file.read_text())
    assert (found["bomFormat"], found["specVersion"]) == ("CycloneDX", "1.6")
    assert found["metadata"]["component"]["name"] == "rhumbline"
    locked = re.findall(
        r"^([\w.-]+)==(\S+)", (ROOT / "requirements.lock").read_text(), re.MULTILINE
    )
    components = {(one["name"], one["version"]): one for one in found["components"]}
    assert components.keys() == set(locked)
    for one in components.values():
        hashes = [h for reference in one["externalReferences"] for h in reference.get("hashes", ())]
        assert {h["alg"] for h in hashes} == {"SHA-256"}
        assert one["purl"].startswith(f"pkg:pypi/{one['name']}@{one['version']}")
