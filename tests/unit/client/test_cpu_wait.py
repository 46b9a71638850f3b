"""The wait for a CPU is read from the kernel, and 0 where it is not counted."""

from pathlib import Path

import pytest

from rhumbline.client import cpu_wait


@pytest.mark.parametrize(
    ("text", "seconds"), [("97364 2500000000 2\n", 2.5), ("", 0.0), ("a b c", 0.0), (None, 0.0)]
)
def test_wait_is_the_second_field(
    text: str | None, seconds: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "schedstat"
    if text is not None:
        path.write_text(text)
    monkeypatch.setattr(cpu_wait, "_SCHEDSTAT", path)
    assert cpu_wait.cpu_wait_seconds() == seconds


def test_wait_never_decreases() -> None:
    assert 0 <= cpu_wait.cpu_wait_seconds() <= cpu_wait.cpu_wait_seconds()
