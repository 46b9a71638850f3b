import pytest

from rhumbline.core.protocol.errors import InvalidArgumentError
from rhumbline.tls.certificate import decode_der, decode_pem


def test_what_is_no_certificate_is_refused() -> None:
    for content in (
        b"",
        b"hello",
        b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n",
    ):
        with pytest.raises(InvalidArgumentError):
            decode_pem(content)
        with pytest.raises(InvalidArgumentError):
            decode_der(content)
