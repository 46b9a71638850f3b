"""Checks of the address under which a server registers: clients must be able to connect to it."""

import socket
from ipaddress import ip_address

from ..core.protocol.errors import ConfigurationError
from ..core.runtime.event_log import EventLog

_LOG = EventLog(__name__)

_EMBEDDED = ("sqlite:", "memory:")
"""URIs of metadata stores whose users are all on one machine."""


def check_advertised(host: str, advertised: str | None, option: str) -> None:
    """Raise ConfigurationError for a wildcard listening address without an advertised one.

    ``option`` says how to set the latter.
    """
    if not advertised and _is_wildcard(host):
        raise ConfigurationError(
            f"the server listens on all addresses ({host or 'no host'}), and no client can connect "
            f"to that: {option}"
        )


def published_host(host: str, advertised: str | None = None) -> str:
    """Return where others reach a server that listens at ``host``.

    If it listens on all addresses, that is ``advertised``, or else the name of this machine.
    """
    return (advertised or socket.gethostname()) if _is_wildcard(host) else host


def warn_of_loopback(server: str, advertised: str, metadata_uri: str) -> None:
    """Log that a server registered an address that other machines cannot use."""
    if loopback_in_shared_store(advertised, metadata_uri):
        _LOG.warning("loopback address shared", server=server, address=advertised, uri=metadata_uri)


def loopback_in_shared_store(advertised: str, metadata_uri: str) -> bool:
    """Return whether other machines find an address that leads to themselves."""
    if metadata_uri.startswith(_EMBEDDED):
        return False
    name = advertised.removeprefix("[").removesuffix("]")
    return name == "localhost" or (_is_address(name) and ip_address(name).is_loopback)


def _is_wildcard(host: str) -> bool:
    return not host or (_is_address(host) and ip_address(host).is_unspecified)


def _is_address(text: str) -> bool:
    try:
        ip_address(text)
    except ValueError:
        return False
    return True
