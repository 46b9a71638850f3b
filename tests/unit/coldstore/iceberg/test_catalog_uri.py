"""One URI selects a catalogue of each kind, and secrets are not in it."""

import pytest

from rhumbline.coldstore.iceberg.catalog_uri import (
    catalog_properties,
    cold_location,
    storage_properties,
)
from rhumbline.core.protocol.errors import ConfigurationError


@pytest.mark.parametrize(
    ("uri", "expected"),
    [
        ("sqlite:///var/c.db", {"type": "sql", "uri": "sqlite:////var/c.db"}),
        (
            "https://host:8181/api?warehouse=logs",
            {"type": "rest", "uri": "https://host:8181/api", "warehouse": "logs"},
        ),
        ("thrift://host:9083", {"type": "hive", "uri": "thrift://host:9083"}),
        ("glue://eu-central-1", {"type": "glue", "glue.region": "eu-central-1"}),
    ],
)
def test_each_kind_of_catalogue_has_a_uri(uri: str, expected: dict[str, str]) -> None:
    assert catalog_properties(uri) == expected


@pytest.mark.parametrize("uri", ["", "sqlite://host/c.db", "sqlite:", "thrift:", "x://y", "glue:"])
def test_other_uris_are_refused(uri: str) -> None:
    with pytest.raises(ConfigurationError, match="write sqlite:///path, http://"):
        catalog_properties(uri)


def test_tables_name_the_files_of_the_cold_store(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RHUMBLINE_S3_ACCESS_KEY", "me")
    monkeypatch.delenv("RHUMBLINE_S3_SECRET_KEY", raising=False)
    uri = "s3://bucket/prefix?endpoint=http://127.0.0.1:7070&region=eu"
    assert cold_location(uri) == "s3://bucket/prefix"
    assert storage_properties(uri) == {
        "s3.endpoint": "http://127.0.0.1:7070",
        "s3.region": "eu",
        "s3.access-key-id": "me",
    }
    monkeypatch.setenv("RHUMBLINE_S3_ENDPOINT", "http://store:9000")
    monkeypatch.setenv("RHUMBLINE_S3_SESSION_TOKEN", "for-an-hour")
    assert storage_properties("s3://bucket/prefix") == {
        "s3.endpoint": "http://store:9000",
        "s3.region": "us-east-1",
        "s3.access-key-id": "me",
        "s3.session-token": "for-an-hour",
    }
    assert (cold_location("file:///cold/"), storage_properties("file:///cold")) == (
        "file:///cold",
        {},
    )
    with pytest.raises(ConfigurationError, match="file:// or s3://"):
        cold_location("webhdfs://host:9870/")
