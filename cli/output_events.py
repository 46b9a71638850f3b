"""The schema of the JSON lines on stderr under ``--output json`` and ``jsonl``."""

from .output_schema import Schema, integer, maybe, number, record, text


def _event(name: str, fields: dict[str, Schema], *, is_open: bool = False) -> Schema:
    return record({"event": text("Kind of the line.", name), **fields}, is_open=is_open)


EVENTS = {
    "message": _event("message", {"text": text("A remark for people.")}),
    "progress": _event(
        "progress",
        {
            "text": text("What is being done."),
            "done": number("How much is done."),
            "total": maybe(number("How much there is to do, if that is known.")),
        },
        is_open=True,
    ),
    "error": _event(
        "error",
        {
            "code": text("Kind of the error; it does not change between versions."),
            "exit_code": integer("Exit code of the command."),
            "text": text("What is wrong."),
        },
    ),
}
"""The schema of each event by name. The error, if there is one, is the last line."""
