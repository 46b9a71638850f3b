"""The options of a query name files, and never hold a secret."""

from pathlib import Path

import pytest
from pyspark.sql.types import BinaryType, StructField, StructType

from rhumbline.core.protocol.errors import ConfigurationError
from rhumbline.security.settings import TlsSettings
from rhumbline.spark.read.options import parse_options
from rhumbline.spark.secure_files import SecureFiles
from rhumbline.spark.write.write_options import parse_write_options

READ = {"subscribe": "s", "metadata": "grpc://127.0.0.1:1"}
WRITE = {"stream": "s", "metadata": "grpc://127.0.0.1:1"}
ROWS = StructType([StructField("payload", BinaryType())])


def test_read_and_write_options_become_arguments_of_connect(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("s3cret\n")
    given = {
        "tlsCa": "ca.pem", "tlsCertificate": "a.pem", "tlsKey": "a.key",
        "tlsServerName": "rhumbline.internal", "tokenFile": str(token),
    }  # fmt: skip
    options = parse_options({**READ, **given}, is_streaming=False)
    assert options.files == parse_write_options({**WRITE, **given}, ROWS).files
    tls = TlsSettings(
        ca="ca.pem", certificate="a.pem", key="a.key", server_name="rhumbline.internal"
    )
    assert options.files.arguments() == {"tls": tls, "token": "s3cret"}
    assert "s3cret" not in repr(options)
    assert SecureFiles().arguments() == {}


def test_a_token_as_an_option_is_refused_without_showing_it() -> None:
    with pytest.raises(ConfigurationError, match="tokenFile") as read:
        parse_options({**READ, "token": "s3cret"}, is_streaming=False)
    with pytest.raises(ConfigurationError, match="tokenFile") as write:
        parse_write_options({**WRITE, "token": "s3cret"}, ROWS)
    assert "s3cret" not in str(read.value) + str(write.value)


def test_files_that_do_not_belong_together_are_faults(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"set both of them or none.*tlsCa"):
        parse_options({**READ, "tlsCertificate": "a.pem"}, is_streaming=False)
    with pytest.raises(ConfigurationError, match=r"tokenFile .*missing"):
        SecureFiles(token=str(tmp_path / "missing")).arguments()
