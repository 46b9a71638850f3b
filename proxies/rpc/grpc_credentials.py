"""TLS of gRPC's servers and channels, with certificates that are read again when they change."""

from typing import TYPE_CHECKING

import grpc
import grpc.aio

from ...tls.credentials import PemFiles, TlsCredentials

if TYPE_CHECKING:
    from collections.abc import Sequence


def server_credentials(credentials: TlsCredentials) -> grpc.ServerCredentials:
    """Return credentials of a server; each handshake uses the newest certificate."""
    seen = credentials.version

    def newest() -> grpc.ServerCertificateConfiguration | None:
        nonlocal seen
        pem = credentials.pem_files()  # loads changed files
        if credentials.version == seen:
            return None
        seen = credentials.version
        return _configuration(pem)

    return grpc.dynamic_ssl_server_credentials(
        _configuration(credentials.pem_files()),
        newest,  # type: ignore[arg-type]  # None, "nothing new", is missing in the stubs
        require_client_authentication=credentials.settings.proxy_client_certificates,
    )


def open_channel(
    address: str, credentials: TlsCredentials | None, options: "Sequence[tuple[str, int]]"
) -> grpc.aio.Channel:
    """Return a channel to a proxy, with the certificate that the process has now."""
    if credentials is None:
        return grpc.aio.insecure_channel(address, options=options)
    pem = credentials.pem_files()
    channel = grpc.ssl_channel_credentials(pem.ca, pem.key or None, pem.certificate or None)
    host = address.rpartition(":")[0].removeprefix("[").removesuffix("]")
    name = credentials.server_name(host)
    all_options: list[tuple[str, int | str]] = list(options)
    if name != host:
        all_options.append(("grpc.ssl_target_name_override", name))
    return grpc.aio.secure_channel(address, channel, options=all_options)


def _configuration(pem: PemFiles) -> grpc.ServerCertificateConfiguration:
    return grpc.ssl_server_certificate_configuration([(pem.key, pem.certificate)], pem.ca)
