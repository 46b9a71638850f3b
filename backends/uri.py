"""Parsing of store URIs: ``scheme://host:port,host:port/path?option=value``."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple
from urllib.parse import parse_qsl, unquote

from ..core.protocol.errors import ConfigurationError


class Host(NamedTuple):
    """The address of one server of a store."""

    name: str
    port: int

    def __str__(self) -> str:
        return f"[{self.name}]:{self.port}" if ":" in self.name else f"{self.name}:{self.port}"


@dataclass(frozen=True, slots=True)
class StoreUri:
    """A parsed URI; ``path`` and ``options`` are percent-decoded, ``authority`` is as written."""

    text: str
    scheme: str
    authority: str
    path: str
    options: dict[str, str]

    def hosts(self, default_port: int) -> tuple[Host, ...]:
        """Return the servers. Raises ConfigurationError if there are none or one is malformed."""
        hosts = tuple(self._host(part, default_port) for part in self.authority.split(","))
        if len(set(hosts)) != len(hosts):
            raise self.error("contains a server twice")
        return hosts

    def check_options(self, known: Iterable[str]) -> dict[str, str]:
        """Return the options. Raises ConfigurationError if one is not in ``known``."""
        names = tuple(known)
        for name in self.options:
            if name not in names:
                allowed = f"known: {', '.join(names)}" if names else "this store has no options"
                raise self.error(f"has an unknown option {name!r} ({allowed})")
        return self.options

    def error(self, what: str) -> ConfigurationError:
        """Return a ConfigurationError about this URI; ``what`` completes the sentence."""
        return ConfigurationError(f"metadata store URI {self.text!r} {what}")

    def _host(self, text: str, default_port: int) -> Host:
        if text.startswith("["):
            name, bracket, rest = text[1:].partition("]")
            if not bracket or (rest and not rest.startswith(":")):
                raise self.error(f"has a malformed server {text!r}")
            port = rest[1:]
        else:
            name, _, port = text.partition(":")
        if not name:
            raise self.error("does not name a server")
        if port and not (port.isascii() and port.isdigit() and 0 < int(port) < 65536):
            raise self.error(f"has port {port!r}, which is not between 1 and 65535")
        return Host(name, int(port) if port else default_port)


def parse_uri(text: str) -> StoreUri:
    """Parse a URI. Raises ConfigurationError if it is malformed or contains credentials."""
    scheme, colon, rest = text.partition(":")
    if not colon or not scheme:
        raise ConfigurationError(f"metadata store URI {text!r} has no scheme")
    rest, _, query = rest.partition("?")
    authority, path = "", rest
    if rest.startswith("//"):
        authority, slash, path = rest[2:].partition("/")
        path = slash + path
    if "@" in authority:
        raise ConfigurationError(
            "a metadata store URI must not contain a user or password: use the options that name "
            "files, such as auth_file"
        )
    options: dict[str, str] = {}
    try:
        pairs = parse_qsl(query, keep_blank_values=True, strict_parsing=bool(query))
    except ValueError as error:
        raise ConfigurationError(f"metadata store URI {text!r}: {error}") from error
    for name, value in pairs:
        if name in options:
            raise ConfigurationError(f"metadata store URI {text!r} has option {name!r} twice")
        options[name] = value
    return StoreUri(text, scheme, authority, unquote(path), options)


def secret_files_of(uri: StoreUri) -> list[str]:
    """Return the files with secrets that the options of a URI name."""
    return [uri.options[name] for name in ("tls_key", "auth_file") if name in uri.options]
