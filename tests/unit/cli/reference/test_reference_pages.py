"""The reference pages in docs/ match the program."""

from rhumbline.cli.reference.dashboards.grafana import dashboard_files
from rhumbline.cli.reference.grpc_reference import PROTO, grpc_page
from rhumbline.cli.reference.metrics_reference import METRICS_FILE, metrics_page
from rhumbline.cli.reference.output_reference import output_page, output_schema
from rhumbline.cli.reference.policy_reference import POLICIES_FILE, policies_page
from rhumbline.cli.reference.reference_pages import (
    COMMANDS_FILE,
    GRPC_FILE,
    OUTPUT_FILE,
    OUTPUT_SCHEMA_FILE,
    SETTINGS_FILE,
    STATE_MACHINES_FILE,
    STORE_COMPARISON_FILE,
    STORE_CONTRACT_FILE,
    commands_page,
    settings_page,
)
from rhumbline.cli.reference.sql_reference import SQL_FILE, sql_page
from rhumbline.cli.reference.state_machines import state_machines_page
from rhumbline.cli.reference.store_comparison import RESULTS_FILE, store_comparison_page
from rhumbline.cli.reference.store_contract import store_contract_page
from rhumbline.core.log.policy import FlushPolicy, StreamPolicy
from rhumbline.core.protocol.quorum import Quorum
from rhumbline.core.runtime.settings import settings_of
from rhumbline.proxies.rpc import rhumbline_pb2
from rhumbline.tests.support.tidy.source_tree import ROOT

HINT = "run `make reference`"


def test_commands_page_is_current() -> None:
    assert (ROOT / "docs/reference" / COMMANDS_FILE).read_text() == commands_page(), HINT


def test_settings_page_is_current() -> None:
    assert (ROOT / "docs/reference" / SETTINGS_FILE).read_text() == settings_page(), HINT


def test_page_of_the_policies_is_current_and_has_every_field() -> None:
    page = policies_page()
    assert (ROOT / "docs/reference" / POLICIES_FILE).read_text() == page, HINT
    for name in (*settings_of(StreamPolicy), *settings_of(FlushPolicy), *settings_of(Quorum)):
        assert f"| `{name}` |" in page


def test_metrics_page_is_current() -> None:
    assert (ROOT / "docs/reference" / METRICS_FILE).read_text() == metrics_page(), HINT


def test_dashboards_are_current() -> None:
    folder = ROOT / "deploy/grafana"
    assert {path.name: path.read_text() for path in folder.iterdir()} == dashboard_files(), HINT


def test_page_and_schema_of_the_output_are_current() -> None:
    folder = ROOT / "docs/reference"
    assert (folder / OUTPUT_FILE).read_text() == output_page(), HINT
    assert (folder / OUTPUT_SCHEMA_FILE).read_text() == output_schema(), HINT


def test_page_of_the_sql_tables_is_current() -> None:
    assert (ROOT / "docs/reference" / SQL_FILE).read_text() == sql_page(), HINT


def test_grpc_page_is_current() -> None:
    assert (ROOT / "docs/reference" / GRPC_FILE).read_text() == grpc_page(), HINT


def test_state_machines_page_is_current() -> None:
    page = (ROOT / "docs/reference" / STATE_MACHINES_FILE).read_text()
    assert page == state_machines_page(), HINT


def test_page_of_store_contracts_is_current() -> None:
    page = (ROOT / "docs/reference" / STORE_CONTRACT_FILE).read_text()
    assert page == store_contract_page(), HINT


def test_page_that_compares_the_metadata_stores_is_current() -> None:
    folder = ROOT / "docs/reference"
    page = (folder / STORE_COMPARISON_FILE).read_text()
    assert page == store_comparison_page(folder / RESULTS_FILE), HINT


def test_grpc_page_describes_every_call_and_field() -> None:
    page = grpc_page()
    file = rhumbline_pb2.DESCRIPTOR
    for method in file.services_by_name["Rhumbline"].methods:
        _, _, text = page.partition(f"### {method.name}\n\n")
        assert text.splitlines()[2], f"{PROTO}: {method.name} has no comment"
    for message in file.message_types_by_name.values():
        _, _, text = page.partition(f"### {message.name}\n")
        for field in message.fields:
            assert f"| `{field.name}` = {field.number} |" in text.partition("###")[0]
