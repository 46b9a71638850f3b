"""No audit event is made from a payload, a token, a key or the message of an error."""

import ast
from collections.abc import Iterator

from rhumbline.security.audit import AuditEvent
from rhumbline.tests.support.tidy import source_tree

SECRETS = ("credential", "key", "message", "password", "payload", "record_set", "secret", "token")


def events() -> Iterator[tuple[str, ast.Call]]:
    """Yield each call of the product that makes an event, or replaces fields of one."""
    for module in source_tree.product_modules():
        if module.parts[0] in ("tests", "docs", ".ci"):
            continue
        text = (source_tree.ROOT / module).read_text(encoding="utf-8")
        if "AuditEvent(" not in text:
            continue
        for node in ast.walk(source_tree.parse(module)):
            if isinstance(node, ast.Call) and ast.unparse(node.func).endswith(
                ("AuditEvent", "event._replace")
            ):
                yield f"{module}:{node.lineno}", node


def names_in(call: ast.Call) -> set[str]:
    """Return the names that the values of a call use."""
    values = [*call.args, *(keyword.value for keyword in call.keywords)]
    found = {node.id for value in values for node in ast.walk(value) if isinstance(node, ast.Name)}
    return found | {
        node.attr for value in values for node in ast.walk(value) if isinstance(node, ast.Attribute)
    }


def test_an_event_has_no_field_for_data() -> None:
    assert AuditEvent._fields == (
        "action",
        "result",
        "principal",
        "peer",
        "resource",
        "error",
        "request_id",
    )


def test_no_event_is_made_from_a_secret() -> None:
    found = list(events())
    assert len(found) > 5
    for where, call in found:
        secret = [name for name in names_in(call) if any(part in name for part in SECRETS)]
        assert not secret, f"{where}: {secret}"
