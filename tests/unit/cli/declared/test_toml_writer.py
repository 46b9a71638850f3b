from hypothesis import given
from hypothesis import strategies as st

from rhumbline.cli.declared.document_reader import read_documents
from rhumbline.cli.declared.find_changes import find_changes
from rhumbline.cli.declared.found_state import FoundCluster, FoundNamespace, FoundStream
from rhumbline.cli.declared.toml_writer import write_state
from rhumbline.core.log.policy import StreamPolicy
from rhumbline.core.protocol.bookie_id import Region
from rhumbline.core.protocol.quorum import Quorum
from rhumbline.security.grant_table import GrantTable
from rhumbline.security.grants import Action, Effect, Grant, parse_resource
from rhumbline.security.quotas import Quota, QuotaTable, Subject, SubjectKind

NAMES = st.text("ab.-_", min_size=1, max_size=4).filter(lambda name: name[0] not in ".-")
POLICIES = st.builds(
    StreamPolicy,
    quorum=st.sampled_from([Quorum(3, 3, 2), Quorum(2, 2, 1), Quorum(1, 1, 1)]),
    retention_ms=st.none() | st.just(1000),
)
STREAMS = st.builds(
    FoundStream, st.just("id"), st.none() | POLICIES, st.frozensets(NAMES, max_size=2)
)
NAMESPACES = st.builds(
    FoundNamespace,
    st.sampled_from([None, Region("eu")]),
    POLICIES,
    st.dictionaries(NAMES, STREAMS, max_size=3),
    st.dictionaries(NAMES, st.integers(1, 3), max_size=1),
)
PRINCIPALS = st.text('aé"\\😀', min_size=1, max_size=3)
GRANTS = st.builds(
    Grant,
    PRINCIPALS,
    st.sampled_from([parse_resource("cluster"), parse_resource("stream:a/b*")]),
    st.sampled_from(Effect),
    st.frozensets(st.sampled_from(Action), min_size=1),
)
SUBJECTS = st.builds(Subject, st.just(SubjectKind.PRINCIPAL), PRINCIPALS)
STATES = st.builds(
    FoundCluster,
    st.none() | st.just((Region("eu"), Region("us"))),
    st.dictionaries(NAMES, NAMESPACES, max_size=3),
    st.builds(GrantTable, st.lists(GRANTS, max_size=3)),
    st.builds(
        QuotaTable,
        st.dictionaries(SUBJECTS, st.builds(Quota, st.just(1), calls=st.just(2)), max_size=2),
    ),
)


@given(STATES)
def test_a_written_state_requires_no_change(state: FoundCluster) -> None:
    declared = read_documents([("f", write_state(state, source="x").encode())])
    assert find_changes(declared, state, prunes=True) == []


def test_a_state_is_written_for_people() -> None:
    streams = {
        "s": FoundStream("1", None, frozenset({"x"})),
        "t": FoundStream("2", StreamPolicy(roll_ms=1000)),
    }
    state = FoundCluster(
        (Region("eu"),), {"a": FoundNamespace(None, StreamPolicy(), streams, {"o": 2})}
    )
    assert write_state(state, source="cluster c").splitlines() == [
        "# The state of cluster c. `rhumbline apply -f` restores it.",
        "",
        'regions = ["eu"]',
        "",
        "[namespaces.a]",
        "",
        "[namespaces.a.policy]",
        'quorum = "3/3/2/R1"',
        "",
        "# not in this file: topic o with 2 partitions, o.0 and so on",
        "[namespaces.a.streams]",
        "",
        "[namespaces.a.streams.s]",
        "policy = {}",
        "",
        "[namespaces.a.streams.s.subscriptions]",
        "x = {}",
        "",
        "[namespaces.a.streams.t]",
        "",
        "[namespaces.a.streams.t.policy]",
        'quorum = "3/3/2/R1"',
        'roll_ms = "1s"',
    ]
