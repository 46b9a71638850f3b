"""Optional dependencies: the error for a missing one names the extra to install."""

from collections.abc import Iterator
from contextlib import contextmanager

from .errors import ConfigurationError

_PACKAGE = __name__.partition(".")[0]


@contextmanager
def needs_extra(feature: str, extra: str) -> Iterator[None]:
    """Report a module of ``extra`` that cannot be imported in the block, in one line.

    ``feature`` is the subject of the message: ``the S3 cold store needs boto3: pip install
    'rhumbline[s3]'``. Raises ConfigurationError. A missing module of Rhumbline itself is a bug, so
    its ModuleNotFoundError is passed on.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        missing = (error.name or "").partition(".")[0]
        if missing in ("", _PACKAGE):
            raise
        raise ConfigurationError(
            f"{feature} needs {missing}: pip install '{_PACKAGE}[{extra}]'"
        ) from error
