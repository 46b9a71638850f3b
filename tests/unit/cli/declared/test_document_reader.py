import pytest

from rhumbline.cli.declared.declared_state import DeclaredCluster, SourceLine
from rhumbline.cli.declared.document_reader import FAULTS_SHOWN, read_documents
from rhumbline.cli.declared.toml_document import DOCUMENT_BYTES_MAX
from rhumbline.core.protocol.errors import ConfigurationError
from rhumbline.core.protocol.quorum import Quorum
from rhumbline.security.grants import Action, Effect, parse_resource
from rhumbline.security.quotas import Quota, Subject, SubjectKind

WHOLE = """
regions = ["us", "eu"]

[namespaces.orders]
store = "eu"
policy = { quorum = "3/3/2/2", retention_ms = "7d" }

[namespaces.orders.streams.payments]
policy = { codec = "zstd" }
subscriptions = { billing = {}, audit = { from = "latest" } }

[quotas."principal:ada"]
append_bytes_per_second = "1MiB"
calls = 5

[[grants]]
principal = "app"
actions = ["append", "read"]
resource = "stream:orders/*"

[[grants]]
principal = "eve"
actions = "all"
resource = "cluster"
effect = "deny"
"""


def read(*texts: str) -> DeclaredCluster:
    names = ["one.toml", "two.toml"]
    return read_documents([(names[i], text.encode()) for i, text in enumerate(texts)])


def faults_of(*texts: str) -> list[str]:
    with pytest.raises(ConfigurationError) as caught:
        read(*texts)
    return str(caught.value).splitlines()


def test_a_file_declares_all_parts_of_a_cluster() -> None:
    found = read(WHOLE)
    assert found.regions == ("eu", "us")
    orders = found.namespaces["orders"]
    assert orders.store == "eu"
    assert orders.place == SourceLine("one.toml", 4)
    assert orders.policy is not None
    assert orders.policy.quorum == Quorum(3, 3, 2, 2)
    assert orders.streams is not None
    payments = orders.streams["payments"]
    assert payments.subscriptions == {"billing": "earliest", "audit": "latest"}
    ada = Subject(SubjectKind.PRINCIPAL, "ada")
    assert found.quotas == {ada: Quota(append_bytes_per_second=1 << 20, calls=5)}
    assert found.grants == {
        ("app", parse_resource("stream:orders/*"), Effect.ALLOW): frozenset(
            {Action.APPEND, Action.READ}
        ),
        ("eve", parse_resource("cluster"), Effect.DENY): frozenset(Action),
    }


def test_parts_that_no_file_declares_are_left_alone() -> None:
    assert read("") == DeclaredCluster()
    found = read("[namespaces.a]\n[namespaces.a.streams.s]")
    assert found.regions is None and found.grants is None and found.quotas is None
    namespace = found.namespaces["a"]
    assert namespace.policy is None and not namespace.is_store_stated
    assert namespace.streams is not None
    assert namespace.streams["s"].policy is None
    assert namespace.streams["s"].subscriptions is None


def test_several_files_declare_streams_of_one_namespace() -> None:
    found = read("[namespaces.a]\npolicy = {}", "[namespaces.a.streams.s]\n[namespaces.b]")
    assert sorted(found.namespaces) == ["a", "b"]
    assert found.namespaces["a"].policy is not None
    assert found.namespaces["a"].streams is not None


@pytest.mark.parametrize(
    "text, fault",
    [
        ("x = [", "one.toml: invalid TOML: Invalid value (at end of document)"),
        ("namespace = {}", "one.toml:1: unknown key namespace; did you mean namespaces?"),
        ("\nregions = 'eu'", "one.toml:2: regions is not a list of strings"),
        ("regions = []", "one.toml:1: regions is empty: a cluster has at least one region"),
        ("[namespaces]\na = 1", "one.toml:2: namespace a is not a table"),
        ("[namespaces.'-a']", "one.toml:1: bad namespace name '-a'"),
        ("[namespaces.a]\npolicy = 1", "one.toml:2: policy is not a table"),
        ("[namespaces.a]\nstore = 1", "one.toml:2: store 1 is not a string"),
        ("[namespaces.a.policy]\nroll_ms = -1", "one.toml:2: roll_ms: -1 is not between"),
        ("[namespaces.a.streams.s]\nquorum = 1", "one.toml:2: unknown key quorum"),
        (
            "[namespaces.a.streams.s.subscriptions]\nx = { from = '1' }",
            "one.toml:2: ",
        ),
        ("[grants]", "one.toml:1: grants is not an array of tables: write [[grants]]"),
        ("[[grants]]\nprincipal = 1", "one.toml:1: a grant has the strings"),
        (
            "[[grants]]\n[[grants]]\nprincipal='a'\nactions=['fly']\nresource='cluster'",
            "one.toml:2: action 'fly' is not one of",
        ),
        ("[quotas.x]", "one.toml:1: 'x' is not one of principal:NAME"),
        ("[quotas.'principal:a']\ncall = 1", "one.toml:2: unknown key call; did you mean calls?"),
        ("[quotas.'principal:a']\ncalls = 'x'", "one.toml:1: calls 'x' is not a whole number"),
        ("[quotas.'principal:a']", "one.toml:1: the quota of principal:a has no limit"),
    ],
)
def test_a_fault_is_reported_with_its_line(text: str, fault: str) -> None:
    assert any(line.startswith(fault) for line in faults_of(text)), faults_of(text)


@pytest.mark.parametrize(
    "first, second, fault",
    [
        ("regions=['a']", "regions=['a']", "two.toml:1: regions are already declared"),
        (
            "[namespaces.a.streams.s]",
            "\n[namespaces.a.streams.s]",
            "two.toml:2: stream s is declared at one.toml:1 as well",
        ),
        (
            "[namespaces.a.policy]",
            "[namespaces.a.policy]",
            "two.toml:1: namespace a has a policy at one.toml:1 as well",
        ),
        (
            "[namespaces.a]\nstore='eu'",
            "[namespaces.a]\nstore='global'",
            "two.toml:2: namespace a has another store at one.toml:1",
        ),
    ],
)
def test_files_do_not_contradict_each_other(first: str, second: str, fault: str) -> None:
    assert any(line.startswith(fault) for line in faults_of(first, second))


def test_input_is_bounded() -> None:
    assert "above the limit" in faults_of(" " * (DOCUMENT_BYTES_MAX + 1))[0]
    assert faults_of("x = " + "[" * 100_000)[0].startswith("one.toml: invalid TOML")
    shown = faults_of("\n".join(f"x{n} = 1" for n in range(FAULTS_SHOWN + 5)))
    assert shown[-1] == "and 5 more"
    assert len(shown) == FAULTS_SHOWN + 1
    assert faults_of("\ud800".encode("utf-8", "surrogatepass").decode("latin1"))
