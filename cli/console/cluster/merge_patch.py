"""Differences between JSON objects as merge patches (RFC 7386). Pure."""

from collections.abc import Mapping
from typing import Any


def without_nulls(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return an object without members that are null, at any depth of objects.

    A merge patch uses null to remove a member, so an object that has some cannot be patched.
    """
    return {
        key: without_nulls(value) if isinstance(value, Mapping) else value
        for key, value in document.items()
        if value is not None
    }


def merge_patch(old: Mapping[str, Any], new: Mapping[str, Any]) -> dict[str, Any]:
    """Return the patch that makes ``new`` of ``old``. Neither has a member that is null."""
    patch: dict[str, Any] = {key: None for key in old if key not in new}
    for key, value in new.items():
        before = old.get(key)
        if isinstance(value, Mapping) and isinstance(before, Mapping):
            if inner := merge_patch(before, value):
                patch[key] = inner
        elif key not in old or before != value:
            patch[key] = value
    return patch


def patched(old: Mapping[str, Any], patch: Mapping[str, Any]) -> dict[str, Any]:
    """Return ``old`` with a patch applied."""
    found = {key: value for key, value in old.items() if patch.get(key, value) is not None}
    for key, value in patch.items():
        if isinstance(value, Mapping):
            before = found.get(key)
            found[key] = patched(before if isinstance(before, Mapping) else {}, value)
        elif value is not None:
            found[key] = value
    return found
