"""The checklist of the guide, and the checks of ``doctor``, are the same and judge the settings."""

import re

import pytest

from rhumbline.cli.operate.protection.hardening import SUBJECTS, check_hardening
from rhumbline.cli.operate.server_checks import OK, WARNING
from rhumbline.client.settings import ServeSettings
from rhumbline.core.bookie.config import BookieConfig
from rhumbline.core.protocol.errors import ConfigurationError
from rhumbline.proxies.config import ProxyConfig
from rhumbline.security.quotas import NO_QUOTAS, Quota, parse_subject
from rhumbline.settings import AuditSettings, SecuritySettings, Settings, TlsSettings
from rhumbline.tests.support.tidy.source_tree import ROOT

TLS = TlsSettings(certificate="c", key="k", ca="a")
LIMITED = NO_QUOTAS.with_quota(parse_subject("principal:*"), Quota(calls=9))


def test_the_guide_lists_what_doctor_checks() -> None:
    page = (ROOT / "docs/how-to/harden-a-cluster.md").read_text()
    assert tuple(re.findall(r"^\| `hardening: ([\w ]+)` \|", page, re.M)) == SUBJECTS


def test_each_item_is_judged_by_its_setting() -> None:
    hardened = Settings(
        tls=TLS,
        security=SecuritySettings(bookie_clients="internal"),
        audit=AuditSettings(file="audit.jsonl"),
        serve=ServeSettings(host="192.0.2.1", status_host="198.51.100.1"),
        proxy=ProxyConfig(operator_port=4291),
    )
    assert {finding.verdict for finding in check_hardening(hardened, LIMITED)} == {OK}
    weak = Settings(
        tls=TlsSettings(certificate="c", key="k", ca="a", required=False),
        bookie=BookieConfig(connection_idle_ms=0),
        serve=ServeSettings(host="192.0.2.1"),
    )
    found = list(check_hardening(weak, NO_QUOTAS))
    assert [finding.subject for finding in found] == [f"hardening: {one}" for one in SUBJECTS]
    assert {finding.verdict for finding in found} == {WARNING}
    insecure = Settings(tls=TLS, security=SecuritySettings(insecure_network=True))
    assert next(check_hardening(insecure, LIMITED)).verdict == WARNING


def test_without_tls_nothing_is_judged() -> None:
    assert not list(check_hardening(Settings(), NO_QUOTAS))


def test_states_and_metrics_have_an_address_of_their_own_unless_all_is_local() -> None:
    for host, status_host, is_good in (
        ("127.0.0.1", "", True),
        ("192.0.2.1", "", False),
        ("192.0.2.1", "192.0.2.1", False),
        ("192.0.2.1", "127.0.0.1", True),
    ):
        settings = Settings(tls=TLS, serve=ServeSettings(host=host, status_host=status_host))
        *_, last = check_hardening(settings, LIMITED)
        assert (last.verdict == OK) is is_good


def test_operators_have_a_port_of_their_own_unless_all_is_local() -> None:
    for host, port, is_good in (("127.0.0.1", 0, True), ("0.0.0.0", 0, False), ("", 4291, True)):
        settings = Settings(
            tls=TLS, serve=ServeSettings(host=host), proxy=ProxyConfig(operator_port=port)
        )
        found = {each.subject: each for each in check_hardening(settings, LIMITED)}
        judged = found["hardening: operator port"]
        assert (judged.verdict == OK) is is_good
        assert ("proxies refuse" in judged.detail) is (port > 0), "it says only what is set"


def test_registered_servers_count_more_than_the_settings_of_the_command() -> None:
    """An administrator's settings name no host of a server, and their default is loopback."""
    here = Settings(tls=TLS)
    proxies = [
        {"address": "192.0.2.1:4281", "operator_address": ""},
        {"address": "192.0.2.2:4281", "operator_address": "192.0.2.2:4291"},
    ]
    found = {one.subject: one for one in check_hardening(here, LIMITED, proxies, {"192.0.2.1"})}
    port = found["hardening: operator port"]
    assert port.verdict == WARNING
    assert port.detail.startswith("it is that of clients at 192.0.2.1:4281: ")
    assert found["hardening: status address"].verdict == WARNING
    found = {one.subject: one for one in check_hardening(here, LIMITED, proxies[1:], {"192.0.2.2"})}
    assert found["hardening: operator port"].verdict == OK


def test_a_status_address_must_be_one_that_can_be_published() -> None:
    for host in ("0.0.0.0", "::"):
        with pytest.raises(ConfigurationError, match="all addresses"):
            ServeSettings(status_host=host)
