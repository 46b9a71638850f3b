"""The declared regions of a cluster: no process may use another one (rule PLC-31).

A region comes into existence when the first bookie is formatted in it, and it exists for ever, so a
misspelt name would change what every default counts. A cluster that declares its regions refuses
other names. One that does not, such as an older one, accepts all.
"""

from collections.abc import Callable, Iterable
from difflib import get_close_matches

from ..protocol.bookie_id import Region, check_region
from ..protocol.errors import (
    BadVersionError,
    ConfigurationError,
    MetadataUnavailableError,
    NodeExistsError,
)
from ..protocol.metadata_record import decode_metadata_record, encode_metadata_record
from ..runtime.metadata_store import MetadataReads, MetadataStore
from . import idempotent_writes
from .bookie_directory import BookieDirectory
from .cluster_layout import ROOT, Paths

_FORMAT = 1
_ATTEMPTS = 16


async def read_declared_regions(
    store: MetadataReads, root: str = ROOT, *, stale_ok: bool = False
) -> list[Region] | None:
    """Return the declared regions, sorted; None if the cluster declares none.

    Raises MetadataUnavailableError, CorruptionError, ForeignDataError.
    """
    value = await idempotent_writes.read_if_exists(
        store, Paths(root).declared_regions, stale_ok=stale_ok
    )
    return None if value is None else _decode(value.data)


def check_declared(name: str, declared: Iterable[str] | None, user: str) -> None:
    """Raise ConfigurationError if regions are declared and ``name`` is not among them.

    ``user`` says what names the region, for the message.
    """
    if declared is None or name in (known := sorted(declared)):
        return
    close = get_close_matches(name, known, n=1, cutoff=0.5)
    hint = f" (did you mean {close[0]}?)" if close else ""
    raise ConfigurationError(
        f"{user} names region {name}, which the cluster does not have{hint}; its regions are "
        f"{', '.join(known) or 'none'}; add one with `rhumbline region add`"
    )


async def declare_regions(
    store: MetadataStore, directory: BookieDirectory, names: Iterable[str], root: str = ROOT
) -> list[Region]:
    """Declare all regions of a cluster. Safe to repeat with the same ones.

    Raises ConfigurationError if others are declared, or if a bookie lies in none of them;
    InvalidArgumentError, MetadataUnavailableError, IndeterminateError.
    """
    wanted = sorted({check_region(name) for name in names})
    for name, bookies in (await _used(directory)).items():
        if name not in wanted:
            raise ConfigurationError(
                f"region {name} has {bookies} formatted bookies and is not among the regions to "
                f"declare: {', '.join(wanted)}"
            )
    found = await read_declared_regions(store, root)
    if found is None:
        try:
            await idempotent_writes.create(store, Paths(root).declared_regions, _encode(wanted))
        except NodeExistsError:
            found = await read_declared_regions(store, root)
        else:
            return wanted
    if found != wanted:
        raise ConfigurationError(
            f"the cluster declares other regions: {', '.join(found or [])}; change them with "
            "`rhumbline region add` and `rhumbline region remove`"
        )
    return wanted


async def add_region(store: MetadataStore, name: str, root: str = ROOT) -> list[Region]:
    """Declare one more region, and return all of them. Safe to repeat.

    Raises ConfigurationError if the cluster declares none, InvalidArgumentError,
    MetadataUnavailableError, IndeterminateError.
    """
    region = check_region(name)
    return await _change(store, root, lambda found: sorted({*found, region}))


async def remove_region(
    store: MetadataStore, directory: BookieDirectory, name: str, root: str = ROOT
) -> list[Region]:
    """Remove an empty region from the declaration, and return the others. Safe to repeat.

    Raises ConfigurationError if a bookie of the region was formatted and not removed since, or if
    the cluster declares no regions; MetadataUnavailableError, IndeterminateError.
    """
    region = check_region(name)
    await _check_is_empty(directory, region)
    left = await _change(store, root, lambda found: [other for other in found if other != region])
    try:
        await _check_is_empty(directory, region)
    except ConfigurationError:  # a bookie was formatted meanwhile
        await add_region(store, region, root)
        raise
    return left


async def _check_is_empty(directory: BookieDirectory, region: Region) -> None:
    bookies = (await _used(directory)).get(region, 0)
    if bookies:
        raise ConfigurationError(
            f"region {region} has {bookies} formatted bookies; decommission them first"
        )


async def _used(directory: BookieDirectory) -> dict[Region, int]:
    """Return the number of bookies that were formatted and not removed since, by region."""
    found: dict[Region, int] = {}
    for bookie in await directory.all_known():
        region = await directory.region_of(bookie)
        if region is not None:
            found[region] = found.get(region, 0) + 1
    return found


async def _change(
    store: MetadataStore, root: str, change: Callable[[list[Region]], list[Region]]
) -> list[Region]:
    path = Paths(root).declared_regions
    for _ in range(_ATTEMPTS):
        value = await idempotent_writes.read_if_exists(store, path)
        if value is None:
            raise ConfigurationError(
                "the cluster does not declare its regions: declare all of them with `rhumbline "
                "cluster init --regions`"
            )
        before = _decode(value.data)
        after = change(before)
        if after == before:
            return before
        try:
            await idempotent_writes.put(store, path, _encode(after), value.version)
        except BadVersionError:
            continue
        return after
    raise MetadataUnavailableError(f"{path} changed during {_ATTEMPTS} attempts")


def _encode(names: Iterable[Region]) -> bytes:
    return encode_metadata_record(_FORMAT, {"regions": list(names)})


def _decode(data: bytes) -> list[Region]:
    fields = decode_metadata_record(
        "the declared regions", data, version=_FORMAT, fields={"regions": list}
    )
    return sorted(check_region(name) for name in fields["regions"])
