"""Tells what is installed: the version of the package, and its optional parts."""

from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from types import ModuleType

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


def is_lab_installed() -> bool:
    """Return whether the distribution rhumbline-lab (simulator, benchmarks) is installed."""
    return find_spec(f"{_PACKAGE}.chaos") is not None


def lab_module(name: str) -> ModuleType:
    """Import a module of rhumbline-lab, such as ``chaos.command``, and return it.

    Only rhumbline-lab imports its modules by statements; everything else uses this function when it
    needs one. Raises ModuleNotFoundError without rhumbline-lab.
    """
    return import_module(f"{_PACKAGE}.{name}")


def installed_version() -> str:
    """Return the version of the package; "0+unknown" for a checkout that is not installed."""
    try:
        return version(_PACKAGE)
    except PackageNotFoundError:
        return "0+unknown"


def installed_form() -> str:
    """Return "compiled" if the modules of the hot path are machine code, else "source"."""
    spec = find_spec(f"{_PACKAGE}.core.protocol.record_set")
    return "compiled" if spec and not str(spec.origin).endswith(".py") else "source"
