"""The application that has a stream open and rarely writes to it."""

from pathlib import Path

from ...managed_process import ManagedProcess, rhumbline_command

IDLE_STREAM = "audit"


class IdleOwner:
    """The process, and the numbers of the records that it was given."""

    def __init__(self, folder: Path, region: str) -> None:
        self.written = 0
        """The number of records; they are numbered from 0."""
        self.process = ManagedProcess(
            "idle owner",
            rhumbline_command("stream", "append", IDLE_STREAM, "--region", region),
            folder / "idle-owner.log",
            cwd=folder,
            has_input=True,
        )

    def write(self, count: int) -> None:
        """Give it records to write. Read the stream to see when they are acknowledged."""
        for number in range(self.written, self.written + count):
            self.process.write_line(b"%09d" % number)
        self.written += count
