"""Tests of `rhumbline --version`, and of the command without arguments."""

import re
import ssl

from click.testing import CliRunner

from rhumbline.cli.main import main
from rhumbline.core.protocol.installation import installed_form, installed_version


def printed(*arguments: str) -> str:
    """Return what the command prints; it must succeed."""
    result = CliRunner().invoke(main, list(arguments))
    assert result.exit_code == 0
    return result.output


def test_version_is_one_line() -> None:
    assert printed("--version") == f"rhumbline, version {installed_version()}\n"


def test_verbose_version_tells_the_form_the_tls_library_and_the_packages() -> None:
    lines = printed("--version", "--verbose").splitlines()
    assert lines[0] == f"rhumbline, version {installed_version()}"
    assert lines[1].startswith(f"form       {installed_form()}")
    assert lines[4] == f"tls        {ssl.OPENSSL_VERSION}"
    packages = [line[11:].split() for line in lines[6:]]
    assert all(re.fullmatch(r"\d[\w.]*", version) for _, version in packages)
    names = [name for name, _ in packages]
    assert names == sorted(names)
    assert {"click", "protobuf", "pyarrow"} <= set(names)
    assert "pytest" not in names


def test_verbose_alone_and_no_command_are_usage_errors() -> None:
    alone = CliRunner().invoke(main, ["--verbose"])
    assert alone.exit_code == 2
    nothing = CliRunner().invoke(main, [])
    assert nothing.exit_code == 2
    assert nothing.output.startswith("Usage: ")
