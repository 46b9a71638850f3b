"""The address of a proxy's listener for operators (rule SEC-44). Pure."""

from ipaddress import ip_address

from ...core.protocol.errors import ConfigurationError
from ...tls.protection import is_loopback
from ..config import ProxyConfig


def published_address(config: ProxyConfig, host: str, address: str, port: int) -> str:
    """Return the host:port that a proxy publishes for operators.

    ``host`` and ``port`` are those that it listens on, ``address`` is the host:port for clients.
    Raises ConfigurationError if operators on other machines would reach their own machine there.
    """
    if config.operator_address:
        return config.operator_address
    client_host = address.rpartition(":")[0]
    published = host if config.operator_host and not _is_wildcard(host) else client_host
    is_local = is_loopback(host) and is_loopback(client_host)
    if is_loopback(published) and not is_local:
        raise ConfigurationError(
            f"the proxy listens for operators on {host}, and would publish {published}:{port}, "
            "which leads other machines to themselves: set proxy.operator_address"
        )
    return f"{published}:{port}"


def _is_wildcard(host: str) -> bool:
    try:
        return ip_address(host.removeprefix("[").removesuffix("]")).is_unspecified
    except ValueError:
        return False
