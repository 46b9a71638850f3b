import pytest

from rhumbline.cli.declared.document_reader import read_documents
from rhumbline.cli.declared.find_changes import find_changes
from rhumbline.cli.declared.found_state import FoundCluster, FoundNamespace, FoundStream
from rhumbline.core.log.policy import StreamPolicy
from rhumbline.core.protocol.bookie_id import Region
from rhumbline.core.protocol.errors import ConfigurationError
from rhumbline.core.protocol.quorum import Quorum
from rhumbline.security.grant_table import GrantTable
from rhumbline.security.grants import make_grant
from rhumbline.security.quotas import Quota, QuotaTable, parse_subject

EU, US = Region("eu"), Region("us")
QUORUM = Quorum(3, 3, 2)


def changes(text: str, found: FoundCluster, *, prunes: bool = False) -> list[str]:
    declared = read_documents([("f", text.encode())])
    return [
        " ".join([change.action, change.kind, change.name, *map(str, change.fields)])
        for change in find_changes(declared, found, prunes=prunes)
    ]


def namespace(**streams: FoundStream) -> FoundNamespace:
    return FoundNamespace(None, StreamPolicy(quorum=QUORUM), streams)


def test_a_new_cluster_gets_everything_in_the_order_of_needs() -> None:
    text = """
    regions = ["us", "eu"]
    quotas."principal:ada".calls = 5
    namespaces.a.streams.s = { policy = { codec = "zstd" }, subscriptions.x = {} }
    [[grants]]
    principal = "app"
    actions = ["read"]
    resource = "namespace:a"
    """
    assert changes(text, FoundCluster(default_quorums={"a": Quorum(2, 2, 2, 2)})) == [
        "create regions cluster regions eu, us",
        "create namespace a quorum 2/2/2/R2",
        "create stream a/s quorum 2/2/2/R2 codec zstd",
        "create subscription a/s/x from earliest",
        "create quota principal:ada calls 5",
        "create grant allow app on namespace:a actions read",
    ]


def test_the_table_of_a_policy_states_all_of_it() -> None:
    before = FoundNamespace(None, StreamPolicy(quorum=QUORUM, retention_ms=1000))
    found = FoundCluster(namespaces={"a": before})
    assert changes("namespaces.a = {}", found) == []
    assert changes("namespaces.a.policy = {}", found) == [
        "change namespace a retention_ms 1s -> none"
    ]
    assert changes("namespaces.a.policy.retention_ms = 1000", found) == []


def test_a_stream_without_keys_follows_its_namespace() -> None:
    own = FoundStream("id", StreamPolicy(quorum=QUORUM, roll_ms=1000))
    found = FoundCluster(namespaces={"a": namespace(own=own, follows=FoundStream("id", None))})
    assert changes("namespaces.a.streams = { own = {}, follows = {} }", found) == []
    assert changes("namespaces.a.streams.follows.policy = {}", found) == []
    assert changes("namespaces.a.streams.own.policy = {}", found) == [
        "change stream a/own policy own -> of the namespace roll_ms 1s -> 2h"
    ]
    assert changes("namespaces.a.streams.own.policy.roll_ms = '1s'", found) == []
    assert changes("namespaces.a.streams.follows.policy.quorum = '3/3/2'", found) == [
        "change stream a/follows policy of the namespace -> own"
    ]


def test_a_stream_builds_on_the_declared_policy_of_its_namespace() -> None:
    own = FoundStream("id", StreamPolicy(quorum=QUORUM, roll_ms=1000))
    text = """
    namespaces.a.policy.retention_ms = "1h"
    namespaces.a.streams.s.policy.roll_ms = "1s"
    """
    assert changes(text, FoundCluster(namespaces={"a": namespace(s=own)})) == [
        "change namespace a retention_ms none -> 1h",
        "change stream a/s retention_ms none -> 1h",
    ]


def test_nothing_is_deleted_without_prune_and_only_declared_parts_with_it() -> None:
    grants = GrantTable([make_grant("app", ["read"], "cluster")])
    quotas = QuotaTable({parse_subject("principal:ada"): Quota(calls=1)})
    streams = {name: FoundStream(name, None, frozenset({"x"})) for name in ("s", "t")}
    found = FoundCluster((EU, US), {"a": namespace(**streams)}, grants, quotas)
    text = """
    regions = ["eu"]
    grants = []
    quotas = {}
    namespaces.a.streams.s.subscriptions = {}
    """
    assert changes(text, found) == []
    assert changes(text, found, prunes=True) == [
        "change regions cluster regions eu, us -> eu",
        "delete grant allow app on cluster",
        "delete quota principal:ada",
        "delete subscription a/s/x",
        "delete stream a/t",
    ]
    assert changes("namespaces.a = {}", found, prunes=True) == []
    assert changes("namespaces.a.streams = { s = {}, t = {} }", found, prunes=True) == []


def test_a_grant_has_exactly_the_declared_actions() -> None:
    found = FoundCluster(grants=GrantTable([make_grant("app", ["read", "append"], "cluster")]))
    text = "grants = [{ principal = 'app', actions = ['read'], resource = 'cluster' }]"
    assert changes(text, found) == [
        "change grant allow app on cluster actions append, read -> read"
    ]


def test_what_cannot_be_applied_is_refused_before_the_first_change() -> None:
    found = FoundCluster(namespaces={"a": namespace()})
    text = """
    [namespaces.a]
    store = "eu"
    [namespaces.a.streams.s.policy]
    spread = ["region:9"]
    """
    with pytest.raises(ConfigurationError) as caught:
        changes(text, found)
    assert str(caught.value).splitlines() == [
        "f:2: namespace a is in the store global, not eu; move it with `rhumbline namespace move`",
        "f:4: stream s: spread region:9: WQ=3 copies cannot lie in 9 domains",
    ]
