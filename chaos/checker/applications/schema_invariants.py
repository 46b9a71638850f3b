"""The invariant of the schemas that programs store with a stream."""

from collections.abc import Iterator

from ..run_record import RunRecord, invariant


@invariant("G38")
def schemas_are_added_to_what_was_checked(record: RunRecord) -> Iterator[str]:
    """Each schema of a stream follows exactly those that its program had checked. The history only
    grows; it has each schema whose addition was confirmed, and none whose addition was refused."""
    use = record.schemas
    if use is None:
        return
    last: tuple[str, ...] = ()
    for at_ms, schemas in use.versions:
        if schemas[: len(last)] != last:
            yield f"at {at_ms:.1f} ms the schemas {last} were replaced by {schemas}"
        for index, schema in enumerate(schemas):
            if index >= len(last) and use.checked.get(schema) != schemas[:index]:
                yield (
                    f"at {at_ms:.1f} ms schema {schema} was added after {schemas[:index]}, "
                    f"its program had checked {use.checked.get(schema)}"
                )
        last = schemas
    for schema, was_added in use.outcomes.items():
        if was_added != (schema in last):
            outcome = "added" if was_added else "refused"
            yield f"schema {schema} was {outcome}, and the stream has {last}"
