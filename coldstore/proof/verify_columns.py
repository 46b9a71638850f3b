"""Verifies columns of files for readers that verify nothing themselves (rule ARC-51).

Needs only pyarrow.
"""

from collections.abc import Sequence
from typing import NamedTuple

from ...core.protocol.errors import CorruptionError, NoSuchObjectError
from ...core.runtime.cold_store import ColdStore
from ...core.runtime.tasks import for_each
from ..archive.manifest import Part
from ..archive.part_file import PartFile

_GROUPS_AT_ONCE = 2
"""One row group is fetched while another one is verified."""
_POSITION = ("entry_id", "lssn", "slot")


class PlannedFile(NamedTuple):
    """A file that a query reads."""

    key: str
    parts: tuple[Part, ...]
    """The parts of the file that the query needs, at least one."""
    needed_records: int
    """The number of records that the query needs, without those of parts that it reads partly."""


class CheckedFile(NamedTuple):
    """The result of verifying a file."""

    is_missing: bool = False
    fault: str = ""
    """Empty, or the difference between the file and the manifest."""
    has_others: bool = False
    """True if the file has records that the query does not need."""


async def check_file(cold: ColdStore, file: PlannedFile, columns: Sequence[str]) -> CheckedFile:
    """Verify the footer of a file, and columns of the parts that a query needs.

    If the file has records that the query does not need, the columns of positions are verified too.
    Raises the errors of the cold store.
    """
    try:
        return await _checked(cold, file, columns)
    except NoSuchObjectError:
        return CheckedFile(is_missing=True)
    except CorruptionError as error:
        return CheckedFile(fault=str(error))


async def _checked(cold: ColdStore, file: PlannedFile, columns: Sequence[str]) -> CheckedFile:
    first = file.parts[0]
    size = (await cold.stat(file.key)).size_bytes
    if size != first.size_bytes:
        raise CorruptionError(
            f"{file.key}: has {size} bytes, the manifest lists {first.size_bytes}"
        )
    footer = (await PartFile.open(cold, file.key, first)).footer
    has_others = footer.num_rows != file.needed_records
    wanted = {*columns, *_POSITION} if has_others else set(columns)
    for part in file.parts:
        if (part.size_bytes, part.footer_sha256) != (size, first.footer_sha256):
            raise CorruptionError(f"{file.key}: the manifest describes two different files")
        await _verify_part(PartFile.in_file(cold, file.key, part, footer), sorted(wanted))
    return CheckedFile(has_others=has_others)


async def _verify_part(part: PartFile, columns: Sequence[str]) -> None:
    async def verify(group: int) -> None:
        await part.verify(group, columns)

    await for_each(range(len(part.row_groups)), verify, _GROUPS_AT_ONCE)
