"""The version of the installed package."""

from importlib.metadata import PackageNotFoundError, version


def installed_version() -> str:
    """Return the version of the package; "0+unknown" for a checkout that is not installed."""
    try:
        return version("rhumbline")
    except PackageNotFoundError:
        return "0+unknown"
