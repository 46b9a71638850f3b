from itertools import combinations, product

import pytest

from rhumbline.core.protocol.errors import (
    CorruptionError,
    ForeignDataError,
    LimitExceededError,
)
from rhumbline.security.grant_table import GrantTable, decode_grants
from rhumbline.security.grants import Action, Grant, make_grant, parse_resource, stream_resource
from rhumbline.security.principal import ANONYMOUS, Principal, Role

RESOURCES = (
    "cluster",
    "namespace:a",
    "namespace:b",
    "stream:a/*",
    "stream:a/x*",
    "stream:a/x",
    "stream:a/xy",
    "stream:b/x",
)
PRINCIPALS = (
    Principal("app"),
    Principal("other"),
    Principal("ops", frozenset({Role.ADMIN})),
    Principal("repair", frozenset({Role.REPAIR})),
    ANONYMOUS,
)
ACTIONS = (Action.APPEND, Action.READ)


def model(grants: list[tuple[str, str, str, str]], who: Principal, action: str, what: str) -> bool:
    """The rules again, over texts: may ``who`` do ``action`` to ``what``?"""

    def inside(part: str, whole: str) -> bool:
        if whole == "cluster" or part == whole:
            return True
        if whole.startswith("namespace:"):
            return part.startswith(f"stream:{whole[10:]}/")
        return whole[-1] == "*" and part.startswith(whole[:-1])

    mine = [one for one in grants if one[0] in (who.name, "*") and one[1] == action]
    allows = any(one[3] == "allow" and inside(what, one[2]) for one in mine)
    parts = [one[2] for one in mine if one[3] == "deny"]
    denies = any(inside(what, one) or (what[-1] == "*" and inside(one, what)) for one in parts)
    return bool(who.name) and (Role.ADMIN in who.roles or (allows and not denies))


def test_every_principal_action_and_resource_agrees_with_the_model() -> None:
    """All pairs of grants of two principals, and all questions about them."""
    single = [
        (principal, action, resource, effect)
        for principal, action, resource, effect in product(
            ("app", "*"), ACTIONS[:1], RESOURCES, ("allow", "deny")
        )
    ]
    questions = 0
    for pair in [*combinations(single, 2), *((one,) for one in single), ()]:
        table = decode_grants(GrantTable(make_grant(p, [a], r, e) for p, a, r, e in pair).encode())
        for who, action, what in product(PRINCIPALS, ACTIONS, RESOURCES):
            decision = table.decide(who, [action], parse_resource(what))
            assert decision.is_allowed == model(list(pair), who, action, what), (
                pair, who, action, what, decision,
            )  # fmt: skip
            questions += 1
    assert questions == (32 * 31 // 2 + 33) * 5 * 2 * 8


def test_the_reason_names_the_grant_that_decides() -> None:
    table = GrantTable(
        [
            make_grant("app", ["append"], "namespace:a"),
            make_grant("*", ["append"], "stream:a/closed*", "deny"),
        ]
    )
    app = Principal("app")
    found = table.decide(app, [Action.APPEND], stream_resource("a", "x"))
    assert found.reason == "granted: allow app append on namespace:a"
    found = table.decide(app, [Action.APPEND], stream_resource("a", "closed-1"))
    assert found.reason == "denied: deny * append on stream:a/closed*"
    found = table.decide(app, [Action.READ, Action.SUBSCRIBE], stream_resource("a", "x"))
    assert found.reason == "no grant allows app to read or subscribe on stream:a/x"
    found = table.decide(ANONYMOUS, [Action.READ], stream_resource("a", "x"))
    assert found.reason == "the caller is anonymous"
    found = table.decide(PRINCIPALS[2], [Action.READ], stream_resource("a", "x"))
    assert found.reason == "ops has the role admin"


def test_one_of_several_actions_suffices_and_a_denial_of_another_does_not_matter() -> None:
    table = GrantTable(
        [
            make_grant("app", ["append"], "stream:a/x"),
            make_grant("app", ["read"], "namespace:a", "deny"),
        ]
    )
    actions = [Action.READ, Action.APPEND]
    assert table.decide(Principal("app"), actions, stream_resource("a", "x")).is_allowed


def test_grants_are_joined_and_taken_back_by_action() -> None:
    table = GrantTable().granted(make_grant("app", ["read"], "namespace:a"))
    table = table.granted(make_grant("app", ["append", "read"], "namespace:a"))
    assert [str(one) for one in table.grants] == ["allow app append, read on namespace:a"]
    table = table.revoked(make_grant("app", ["read"], "namespace:a", "deny"))
    table = table.revoked(make_grant("app", ["read"], "stream:a/*"))
    assert len(table.grants[0].actions) == 2, "only exactly the same resource and effect"
    table = table.revoked(make_grant("app", ["read"], "namespace:a"))
    assert table.grants[0].actions == {Action.APPEND}
    assert table.revoked(make_grant("app", list(Action), "namespace:a")).grants == ()


def test_a_principal_named_like_the_wildcard_gets_no_more_than_everyone() -> None:
    table = GrantTable([make_grant("*", ["read"], "stream:a/x")])
    assert len(table.of("*")) == 1


@pytest.mark.parametrize(
    "rows",
    [
        "{}", '["app"]', '[["app","cluster","allow"]]', '[["app","cluster","allow","read"]]',
        '[["app","cluster","allow",[1]]]', '[[7,"cluster","allow",["read"]]]',
        '[["app","everything","allow",["read"]]]', '[["app","cluster","allow",["fly"]]]',
        '[["app","cluster","maybe",["read"]]]', '[["","cluster","allow",["read"]]]',
        '[["app","cluster","allow",[]]]',
    ],
)  # fmt: skip
def test_a_damaged_table_is_refused(rows: str) -> None:
    with pytest.raises(CorruptionError):
        decode_grants(b'{"v":1,"grants":%s}' % rows.encode())


def test_a_table_of_another_format_or_size_is_refused() -> None:
    with pytest.raises(ForeignDataError):
        decode_grants(b'{"v":2,"grants":[]}')
    with pytest.raises(CorruptionError, match="more than"):
        decode_grants(b" " * 100_000)
    grants = [
        Grant(f"app-{number}", *make_grant("x", ["read"], "cluster")[1:]) for number in range(3_000)
    ]
    with pytest.raises(LimitExceededError, match="use prefixes"):
        GrantTable(grants).encode()
