"""Declared settings: all faults of a value are found, and each declaration is consistent."""

from dataclasses import dataclass, fields, is_dataclass

import pytest

from rhumbline.chaos.lab.scenario import Scenario
from rhumbline.client.settings import Settings
from rhumbline.core.log.policy import FlushPolicy, StreamPolicy
from rhumbline.core.protocol.errors import ConfigurationError, InvalidArgumentError
from rhumbline.core.runtime.settings import (
    check_settings,
    from_plain_value,
    plain_fields,
    setting,
    settings_of,
)


def _check_even(value: int) -> None:
    if value % 2:
        raise InvalidArgumentError(f"{value} is odd")


@dataclass(frozen=True)
class Example:
    wait_ms_min: int = setting(1, "Least.", low=1, high=10, not_above="wait_ms_max")
    wait_ms_max: int = setting(5, "Most.", low=1)
    size_bytes: int | None = setting(None, "Size.", high=9, check=_check_even)
    mode: str = setting("a", "Mode.", words=("a", "b"), needs="name")
    name: str = setting("x", "Name.")
    names: tuple[str, ...] = setting((), "Names.")

    def __post_init__(self) -> None:
        check_settings(self, "example")


@pytest.mark.parametrize(
    ("values", "fault"),
    [
        ({"wait_ms_min": 0}, "wait_ms_min=0 is not between 1 and 10 ms"),
        ({"wait_ms_min": True}, "wait_ms_min=True is not a duration"),
        ({"wait_ms_min": 6}, "wait_ms_min=6 is above wait_ms_max=5"),
        ({"wait_ms_max": None}, "wait_ms_max=None is not a duration"),
        ({"wait_ms_max": 0}, "wait_ms_max=0 is not at least 1 ms"),
        ({"size_bytes": 10}, "size_bytes=10 is not at most 9 bytes"),
        ({"size_bytes": 3}, "size_bytes=3 is odd"),
        ({"mode": "c"}, "mode='c' is not one of a, b"),
        ({"name": ""}, "mode='a' needs name, which is not set"),
        ({"names": ["x"]}, "names=['x'] is not a list"),
        ({"names": (1,)}, "names=1 is not a string"),
        (
            {"wait_ms_min": 0, "mode": "c"},
            "wait_ms_min=0 is not between 1 and 10 ms; mode='c' is not one of a, b",
        ),
    ],
)
def test_every_fault_of_a_value_is_reported(values: dict[str, object], fault: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        Example(**values)  # type: ignore[arg-type]
    assert str(caught.value) == f"example: {fault}"


def _tables(cls: type) -> list[type]:
    found = [cls]
    for declared in settings_of(cls).values():
        for kind in (declared.kind, *getattr(declared.kind, "__args__", ())):
            if isinstance(kind, type) and is_dataclass(kind):
                found += _tables(kind)
    return found


@pytest.mark.parametrize("cls", [*_tables(Settings), StreamPolicy, FlushPolicy, *_tables(Scenario)])
def test_declarations_are_consistent(cls: type) -> None:
    declared = settings_of(cls)
    assert list(declared) == [f.name for f in fields(cls)]
    for name, item in declared.items():
        if not item.is_required and name != "title":
            assert item.fault(item.default) is None, name
        assert not [value for value in item.draws if item.fault(value) is not None], name
        assert all(other in declared for other in (item.not_above, item.needs) if other)
        if item.kind in (int, float) and cls.__name__ != "Quorum":
            assert item.bounds_text, f"{name} has no bounds"


def test_plain_values_return_to_the_same_policy() -> None:
    policy = StreamPolicy(flush=FlushPolicy(None, 7, 3), regions=("a", "b"), keepalive_ms=10)
    declared = settings_of(StreamPolicy)
    plain = plain_fields(policy)
    assert (
        StreamPolicy(
            **{name: from_plain_value(declared[name], value) for name, value in plain.items()}
        )
        == policy
    )
