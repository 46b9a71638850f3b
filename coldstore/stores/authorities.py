"""Checks the file of certificate authorities by which a cold store's server is verified."""

import ssl

from ...core.protocol.errors import ConfigurationError


def check_authorities(file: str | None) -> None:
    """Check that a PEM file has certificates; None is none. Raises ConfigurationError."""
    if file is None:
        return
    try:
        ssl.create_default_context(cafile=file)
    except OSError as error:  # also ssl.SSLError
        raise ConfigurationError(f"cold store: ca {file}: {error.strerror or error}") from error
