"""Store URIs: ``scheme://host:port,host:port/path?option=value``, taken apart and checked."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple
from urllib.parse import parse_qsl, unquote

from ..core.protocol.errors import ConfigurationError


class Host(NamedTuple):
    """One server of a store."""

    name: str
    port: int

    def __str__(self) -> str:
        return f"[{self.name}]:{self.port}" if ":" in self.name else f"{self.name}:{self.port}"


@dataclass(frozen=True, slots=True)
class StoreUri:
    """A parsed URI. ``authority`` and ``path`` are as written, ``options`` are decoded."""

    text: str
    scheme: str
    authority: str
    path: str
    options: dict[str, str]

    def hosts(self, default_port: int) -> tuple[Host, ...]:
        """The servers. Raises ConfigurationError when there are none or one is malformed."""
        hosts = tuple(self._host(part, default_port) for part in self.authority.split(","))
        if len(set(hosts)) != len(hosts):
            raise self.wrong("names a server twice")
        return hosts

    def only_options(self, known: Iterable[str]) -> dict[str, str]:
        """The options. Raises ConfigurationError when one is not in ``known``."""
        names = tuple(known)
        for name in self.options:
            if name not in names:
                allowed = f"known: {', '.join(names)}" if names else "there are none"
                raise self.wrong(f"has an unknown option {name!r} ({allowed})")
        return self.options

    def wrong(self, what: str) -> ConfigurationError:
        """The error for this URI."""
        return ConfigurationError(f"metadata store URI {self.text!r} {what}")

    def _host(self, text: str, default_port: int) -> Host:
        if text.startswith("["):
            name, bracket, rest = text[1:].partition("]")
            if not bracket or (rest and not rest.startswith(":")):
                raise self.wrong(f"has a malformed server {text!r}")
            port = rest[1:]
        else:
            name, _, port = text.partition(":")
        if not name:
            raise self.wrong("names no server")
        if port and not (port.isascii() and port.isdigit() and 0 < int(port) < 65536):
            raise self.wrong(f"has a bad port {port!r}")
        return Host(name, int(port) if port else default_port)


def parse_uri(text: str) -> StoreUri:
    """Takes a URI apart. Raises ConfigurationError; secrets do not belong in one."""
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
            "a metadata store URI holds no user or password: use the options that name files"
        )
    options: dict[str, str] = {}
    try:
        pairs = parse_qsl(query, keep_blank_values=True, strict_parsing=bool(query))
    except ValueError as error:
        raise ConfigurationError(f"metadata store URI {text!r}: {error}") from error
    for name, value in pairs:
        if name in options:
            raise ConfigurationError(f"metadata store URI {text!r} gives {name!r} twice")
        options[name] = value
    return StoreUri(text, scheme, authority, unquote(path), options)
