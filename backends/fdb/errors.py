"""The meaning of FoundationDB's error codes, and the texts of the errors that they become."""

NOT_COMMITTED = frozenset(
    {
        1007,  # the transaction is too old
        1009,  # its version is in the future
        1020,  # a conflict
        1037,  # a storage server is behind
        1038,  # the database is locked
        1042,  # a commit proxy has no memory left
        1051,  # throttled
        1078,  # a proxy of read versions has no memory left
        1213,  # throttled by tag
    }
)
"""Error codes of a commit that certainly had no effect.

Errors of the client itself (2000 to 2999) had no effect either. After all other errors the outcome
is unknown, such as 1021 (commit_unknown_result), 1031 (timed out) and 1039
(cluster_version_changed).
"""

CONFLICT = 1020
"""Something that a transaction has read was changed before its commit, which had no effect."""

NO_RESPONSE = "no response from FoundationDB in time"

_TOO_LARGE = (2101, 2102, 2103)
_TLS_SUFFIX = ":tls"


def code_of(error: Exception) -> int:
    """Return FoundationDB's code of an error of the bindings; 0 if it has none."""
    code: int = getattr(error, "code", 0)
    return code


def describe(error: Exception) -> str:
    """Return an error of the bindings as text, with its code.

    The bindings give the description as bytes, which their own ``str`` shows as a Python literal.
    """
    description = getattr(error, "description", None)
    if isinstance(description, bytes):
        description = description.decode(errors="replace")
    if not description:
        return f"FoundationDB: {error}"
    return f"FoundationDB: {description} ({code_of(error)})"


def may_be_committed(error: Exception) -> bool:
    """Return whether a commit that ended with this error may have an effect, now or later."""
    code = code_of(error)
    return code not in NOT_COMMITTED and not 2000 <= code < 3000


def is_too_large(error: Exception) -> bool:
    """Return whether a key, a value or a transaction exceeds one of FoundationDB's limits."""
    return code_of(error) in _TOO_LARGE


def tls_hint(cluster: str, *, has_certificate: bool) -> str:
    """Return what is wrong if a cluster's connection string and this process disagree about TLS.

    ``cluster`` is the content of the cluster file. The result is empty if they agree. FoundationDB
    reports nothing but timeouts in this case.
    """
    lines = [line.strip() for line in cluster.splitlines()]
    addresses = ",".join(line for line in lines if line and not line.startswith("#"))
    found = [part.strip() for part in addresses.rpartition("@")[2].split(",") if part.strip()]
    if not found:
        return ""
    with_tls = sum(address.endswith(_TLS_SUFFIX) for address in found)
    if with_tls and not has_certificate:
        return (
            "; the cluster file says :tls, but this process has no certificate: set the options "
            "tls_ca, tls_cert and tls_key"
        )
    if has_certificate and not with_tls:
        return (
            "; this process has a TLS certificate, but the addresses in the cluster file do not "
            "end with :tls, so that it connects without TLS"
        )
    return ""
