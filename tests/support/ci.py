"""Whether the tests run in CI, where nothing that they need may be missing."""

import os


def in_ci() -> bool:
    """True if a missing server is a failure rather than a reason to skip."""
    return os.environ.get("CI", "").lower() == "true"
