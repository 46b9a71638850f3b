"""An authority, a server's and a client's certificates, made by openssl for one test."""

import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

CLIENT = "rhumbline-client"
"""The name in the client's certificate."""


@dataclass(frozen=True, slots=True)
class Pair:
    """A certificate and its key, as files; ``both`` is one file with both."""

    cert: Path
    key: Path
    both: Path


@dataclass(frozen=True, slots=True)
class Certificates:
    """``stranger`` is a client whose certificate another authority made."""

    ca: Path
    server: Pair
    client: Pair
    stranger: Pair
    other_ca: Path


def certificates(path: Path) -> Certificates:
    """Makes them, or the test skips where there is no openssl."""
    if shutil.which("openssl") is None:
        pytest.skip("there is no openssl on this machine")
    path.mkdir()
    ca, other = _authority(path, "ca"), _authority(path, "other")
    names = "subjectAltName=DNS:localhost,IP:127.0.0.1"
    usage = "extendedKeyUsage=serverAuth,clientAuth"
    return Certificates(
        ca.cert,
        _issued(path, "server", ca, f"{names}\n{usage}"),
        _issued(path, CLIENT, ca, usage),
        _issued(path, "stranger", other, usage),
        other.cert,
    )


def _authority(path: Path, name: str) -> Pair:
    pair = Pair(path / f"{name}.pem", path / f"{name}.key", path / f"{name}.both")
    _openssl(
        "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", f"/CN={name}",
        "-keyout", str(pair.key), "-out", str(pair.cert),
    )  # fmt: skip
    return pair


def _issued(path: Path, name: str, by: Pair, extensions: str) -> Pair:
    pair = Pair(path / f"{name}.pem", path / f"{name}.key", path / f"{name}.both.pem")
    request, wanted = path / f"{name}.csr", path / f"{name}.ext"
    wanted.write_text(extensions)
    _openssl(
        "req", "-new", "-newkey", "rsa:2048", "-nodes", "-subj", f"/CN={name}",
        "-keyout", str(pair.key), "-out", str(request),
    )  # fmt: skip
    _openssl(
        "x509", "-req", "-in", str(request), "-CA", str(by.cert), "-CAkey", str(by.key),
        "-CAcreateserial", "-days", "2", "-extfile", str(wanted), "-out", str(pair.cert),
    )  # fmt: skip
    pair.both.write_text(pair.cert.read_text() + pair.key.read_text())
    return pair


def _openssl(*arguments: str) -> None:
    subprocess.run(["openssl", *arguments], check=True, capture_output=True, timeout=60)
