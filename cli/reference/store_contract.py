"""The page of the contracts of stores, from the interfaces and the conformance kits."""

import inspect
import re
from collections.abc import Callable, Iterable, Iterator
from typing import Protocol

from ...backends import migration_fence
from ...backends.conformance.kit import all_checks, check_name
from ...backends.document_store import Document
from ...coldstore.stores.conformance import CHECKS
from ...core.runtime import cold_store, metadata_store

_HEAD = """\
# Contracts of stores

Generated from the program; do not edit. A store that an application or a package adds promises what
this page states; [Add a store](../how-to/add-a-store.md) shows how. The names are exported by
[`rhumbline.stores`](api/stores.md) and [`rhumbline.plugins`](api/plugins.md). These interfaces are
stable: a method or a promise is only added together with a default or a new major version.
"""


def store_contract_page() -> str:
    """Return the page of the contracts of metadata stores and cold stores."""
    lines = [
        _HEAD,
        "## Metadata stores\n",
        *_guarantees(metadata_store.__doc__),
        *_interface(metadata_store.MetadataStore),
        *_interface(metadata_store.Session),
        *_interface(migration_fence.MovableStore, besides=metadata_store.MetadataStore),
        *_interface(Document),
        "### Limits\n",
        "| limit | value |\n|---|---|",
        *(f"| {name} | {value:,} |" for name, value in _limits()),
        "",
        "### Checks of the kit\n",
        "The fixture `rhumbline_metadata_check` runs these checks.\n",
        *_checks((check_name(check), check) for check in all_checks()),
        "## Cold stores\n",
        *_guarantees(cold_store.__doc__),
        *_interface(cold_store.ColdStore),
        "### Checks of the cold store kit\n",
        "The fixture `rhumbline_cold_check` runs these checks.\n",
        *_checks(CHECKS.items()),
    ]
    return "\n".join(lines).rstrip() + "\n"


def _guarantees(docstring: str | None) -> Iterator[str]:
    """Yield the introduction and the numbered guarantees of an interface's module."""
    yield _markdown(inspect.cleandoc(docstring or "")) + "\n"


def _interface(interface: type, besides: type | None = None) -> Iterator[str]:
    """Yield the members of an interface, without those that are known from ``besides``."""
    yield f"### {interface.__name__}\n"
    yield f"{_markdown(inspect.getdoc(interface) or '')}\n"
    members: dict[str, object] = {}
    for base in reversed(interface.__mro__):
        if getattr(base, "_is_protocol", False) and base is not Protocol:
            members.update(vars(base))
    for name, member in members.items():
        if name.startswith("_") or hasattr(besides, name):
            continue
        if isinstance(member, property):
            yield f"- `{name}`: {_paragraph(member)}"
        elif inspect.isfunction(member):
            yield f"- `{name}{_signature(member)}`: {_paragraph(member)}"
    yield ""


def _signature(function: Callable[..., object]) -> str:
    """Return the parameters without ``self`` and without types."""
    parameters = [
        parameter.replace(annotation=inspect.Parameter.empty)
        for parameter in inspect.signature(function).parameters.values()
        if parameter.name != "self"
    ]
    return str(inspect.Signature(parameters))


def _limits() -> Iterator[tuple[str, int]]:
    yield "bytes of a value", metadata_store.VALUE_BYTES_MAX
    yield "operations in a transaction", metadata_store.TXN_OPERATIONS_MAX
    yield "bytes of paths and data in a transaction", metadata_store.TXN_BYTES_MAX
    yield "bytes of a path", metadata_store.PATH_BYTES_MAX


def _checks(checks: Iterable[tuple[str, Callable[..., object]]]) -> Iterator[str]:
    yield "| check | requirement |\n|---|---|"
    for name, check in checks:
        yield f"| `{name}` | {_paragraph(check)} |"
    yield ""


def _paragraph(documented: object) -> str:
    return " ".join(_markdown(inspect.getdoc(documented) or "").split()).replace("|", "&#124;")


def _markdown(text: str) -> str:
    return re.sub(r"``([^`]+)``", r"`\1`", text)
