import pytest

from rhumbline.core.protocol.errors import InvalidArgumentError
from rhumbline.security.grants import (
    CLUSTER,
    Action,
    make_grant,
    namespace_resource,
    parse_resource,
    prefix_resource,
    stream_resource,
)


@pytest.mark.parametrize(
    ("text", "resource"),
    [
        ("cluster", CLUSTER),
        ("namespace:acme", namespace_resource("acme")),
        ("stream:acme/orders", stream_resource("acme", "orders")),
        ("stream:acme/orders*", prefix_resource("acme", "orders")),
        ("stream:acme/*", prefix_resource("acme", "")),
    ],
)
def test_a_resource_is_read_as_it_is_written(text: str, resource: object) -> None:
    assert parse_resource(text) == resource
    assert str(resource) == text


@pytest.mark.parametrize(
    "text",
    [
        "", "Cluster", "cluster:", "namespace:", "namespace:a/b", "namespace:a*", "stream:a",
        "stream:/x", "stream:a/", "stream:a/x*y", "stream:a/x**", "stream:a/x/y", "stream:a*/x",
        "stream:a/.x", "stream:a/\u00e9", f"stream:a/{'x' * 201}", "topic:a/x",
    ],
)  # fmt: skip
def test_another_resource_is_refused(text: str) -> None:
    with pytest.raises(InvalidArgumentError, match="is not cluster, namespace:NAME"):
        parse_resource(text)


@pytest.mark.parametrize(
    ("principal", "actions", "effect", "fault"),
    [
        ("", ["read"], "allow", "name of principal"),
        ("two\nlines", ["read"], "allow", "name of principal"),
        (" app", ["read"], "allow", "name of principal"),
        ("a" * 257, ["read"], "allow", "name of principal"),
        ("app", [], "allow", "at least one action"),
        ("app", ["fly"], "allow", "is not one of append"),
        ("app", ["read"], "perhaps", "is not allow or deny"),
    ],
)
def test_a_wrong_grant_is_refused(
    principal: str, actions: list[str], effect: str, fault: str
) -> None:
    with pytest.raises(InvalidArgumentError, match=fault):
        make_grant(principal, actions, "cluster", effect)


def test_a_grant_is_shown_in_words() -> None:
    made = make_grant("app", ["read", "append"], "stream:acme/a*")
    assert made.actions == {Action.READ, Action.APPEND}
    assert str(made) == "allow app append, read on stream:acme/a*"
