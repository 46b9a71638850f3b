"""Settings: precedence of the sources, units, and all errors in one message."""

import os
from pathlib import Path

import pytest

from rhumbline.cli.config_file import all_keys, load_settings
from rhumbline.core.protocol.errors import ConfigurationError


def written(tmp_path: Path, text: str) -> Path:
    file = tmp_path / "rhumbline.toml"
    file.write_text(text)
    return file


def test_defaults_need_no_file() -> None:
    assert load_settings(environ={}).settings.cluster.namespace == "default"


def test_a_working_directory_that_may_not_be_searched_has_no_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`runuser -u rhumbline -- rhumbline ...` in root's directory failed: permission denied."""
    (tmp_path / "rhumbline.toml").write_text("[cluster]\nregion = 'eu'\n")
    monkeypatch.chdir(tmp_path)
    assert load_settings(environ={}).settings.cluster.region == "eu"
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    assert load_settings(environ={}).file is None


def test_durations_and_sizes_are_read_with_units(tmp_path: Path) -> None:
    file = written(
        tmp_path,
        """
        [ledger]
        request_timeout_ms = "1.5s"
        pending_bytes_max = "64MiB"
        connect_timeout_ms = 250
        on_bookie_failure = "close"
        [bookie.advertised_addresses]
        eu = "10.0.0.1:3281"
        [reads]
        local_ms_max = "50ms"
        extra_percent = 5
        [repair]
        lost_after_ms = "10m"
        bytes_per_second = "100MiB"
        """,
    )
    settings = load_settings(file, environ={}).settings
    assert settings.ledger.request_timeout_ms == 1500
    assert settings.ledger.pending_bytes_max == 64 * 2**20
    assert settings.ledger.connect_timeout_ms == 250
    assert settings.ledger.on_bookie_failure == "close"
    assert settings.bookie.advertised_addresses == (("eu", "10.0.0.1:3281"),)
    assert (settings.reads.local_ms_max, settings.reads.extra_percent) == (50, 5)
    assert settings.repair.lost_after_ms == 600_000
    assert settings.repair.bytes_per_second == 100 * 2**20


def test_option_overrides_environment_overrides_file(tmp_path: Path) -> None:
    file = written(tmp_path, '[cluster]\nnamespace = "a"\nregion = "a"\nmetadata = "a:"\n')
    environ = {"RHUMBLINE_CLUSTER__REGION": "b", "RHUMBLINE_CLUSTER__METADATA": "b:"}
    loaded = load_settings(file, environ=environ, options={"cluster.metadata": "c:"})
    cluster = loaded.settings.cluster
    assert (cluster.namespace, cluster.region, cluster.metadata) == ("a", "b", "c:")
    assert loaded.sources == {
        "cluster.namespace": str(file),
        "cluster.region": "environment RHUMBLINE_CLUSTER__REGION",
        "cluster.metadata": "option",
    }


def test_lists_are_read_from_a_file_and_from_the_environment(tmp_path: Path) -> None:
    file = tmp_path / "rhumbline.toml"
    file.write_text('[bookie]\ndata_dirs = ["/a", "/b"]\n')
    assert load_settings(file, environ={}).settings.bookie.data_dirs == ("/a", "/b")
    environ = {"RHUMBLINE_BOOKIE__DATA_DIRS": "/c, /d"}
    assert load_settings(file, environ=environ).settings.bookie.data_dirs == ("/c", "/d")
    file.write_text("[bookie]\ndata_dirs = 7\n")
    with pytest.raises(ConfigurationError, match=r"bookie\.data_dirs: 7 is not a list"):
        load_settings(file, environ={})


def test_environment_can_name_the_file_and_table_entries(tmp_path: Path) -> None:
    file = written(tmp_path, '[bookie.advertised_addresses]\neu = "a:1"\n')
    environ = {"RHUMBLINE_CONFIG": str(file), "RHUMBLINE_BOOKIE__ADVERTISED_ADDRESSES__US": "b:2"}
    addresses = load_settings(environ=environ).settings.bookie.advertised_addresses
    assert addresses == (("eu", "a:1"), ("us", "b:2"))


def test_all_errors_of_all_sources_are_reported_at_once(tmp_path: Path) -> None:
    file = written(
        tmp_path,
        """
        speed = 1
        [clutser]
        [cluster]
        regoin = "eu"
        region = "EU West"
        [ledger]
        request_timeout_ms = "soon"
        recovery_window = true
        change_mode = "later"
        fragments_max = 0
        """,
    )
    environ = {"RHUMBLINE_SERVE__PROT": "1", "RHUMBLINE_SERVE__PORT": "99999", "RHUMBLINE_X": "ok"}
    with pytest.raises(ConfigurationError) as caught:
        load_settings(file, environ=environ)
    text = str(caught.value)
    for part in (
        "unknown section [clutser]; did you mean cluster?",
        "unknown section [speed]",
        "unknown key regoin in [cluster]; did you mean region?",
        "cluster.region: bad region or rack 'EU West'",
        "ledger.request_timeout_ms: 'soon' is not a duration; write it like 10ms",
        "ledger.recovery_window: True is not a whole number",
        "ledger.change_mode: 'later' is not one of delayed, eager",
        "ledger.fragments_max: 0 is not between 1 and 10000",
        "unknown setting RHUMBLINE_SERVE__PROT; did you mean port?",
        "serve.port: 99999 is not between 0 and 65535",
    ):
        assert part in text
    assert len(text.splitlines()) == 10


def test_missing_or_invalid_file_is_reported_in_one_line(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="no such file"):
        load_settings(tmp_path / "none.toml", environ={})
    with pytest.raises(ConfigurationError, match="invalid TOML"):
        load_settings(written(tmp_path, "a = = b"), environ={})
    with pytest.raises(ConfigurationError, match="cannot be read"):
        load_settings(tmp_path, environ={})


def test_conflicts_of_valid_values_are_reported_with_the_other_errors(tmp_path: Path) -> None:
    file = written(
        tmp_path,
        """
        [ledger]
        backoff_ms_min = "5s"
        connect_timeout_ms = 0
        [telemetry]
        sample_ratio = 0.5
        """,
    )
    with pytest.raises(ConfigurationError) as caught:
        load_settings(file, environ={}, options={"cluster.region": "EU", "cluster.regoin": "eu"})
    assert str(caught.value).replace(f"{file}: ", "").splitlines() == [
        "option: unknown setting cluster.regoin; did you mean region?",
        "option: cluster.region: bad region or rack 'EU': lower-case letters, digits, - _ . "
        "(at most 63)",
        "ledger.connect_timeout_ms: 0 is not between 1 and 600000 ms",
        "ledger.backoff_ms_min: 5000 is above backoff_ms_max=2000",
        "telemetry.sample_ratio: 0.5 needs otlp_endpoint, which is not set",
    ]


def test_every_setting_has_a_text_and_a_variable() -> None:
    keys = list(all_keys())
    assert len({key.name for key in keys}) == len(keys)
    assert not [key.name for key in keys if not key.setting.text]
    assert all(key.env == f"RHUMBLINE_{key.name.replace('.', '__')}".upper() for key in keys)
