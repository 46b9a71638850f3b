"""Settings of the audit log."""

from dataclasses import dataclass

from ..core.runtime.settings import check_settings, setting

STDERR = "stderr"
"""Value of ``file`` for standard error."""


@dataclass(frozen=True, slots=True)
class AuditSettings:
    """The audit log of a process: administrative acts and refusals. Raises ConfigurationError."""

    file: str = setting(
        "",
        "File of the audit log, one JSON object in each line; several processes of a machine may "
        "share it. `stderr`: standard error. Empty: no audit log.",
    )
    file_bytes_max: int = setting(
        64 << 20,
        "Size above which the file is renamed to FILE.1 and a new one is started.",
        low=4096,
    )
    files_kept: int = setting(
        8, "Number of renamed files that are kept; older ones are deleted.", low=1, high=1_000
    )
    sync: bool = setting(
        True,
        "Make lines durable (fsync) when they are written, once for all that wait. The writer is a "
        "thread of its own, so no request waits for it.",
    )
    queue_lines_max: int = setting(
        10_000,
        "Maximum number of lines that wait to be written. Further ones are dropped; the audit log "
        "then says how many.",
        low=1,
    )

    def __post_init__(self) -> None:
        check_settings(self, "audit")
