"""The way in which tests run here: the same examples each time, and no time lost on shrinking."""

import pytest

ARGUMENTS = ["-q", "-p", "no:cacheprovider", "--assert=plain"]
"""Without `plain`, pytest loads the product itself and rewrites its assertions if it finds the
product on `sys.path`, because the product provides a plugin. A mutated module is then not imported,
and a function with an assertion is not found.
"""

NO_TIMEOUT = ["-o", "timeout=0"]
"""For forks, whose tests are limited by the kernel."""


class Deterministic:
    """A pytest plugin that makes hypothesis deterministic."""

    @pytest.hookimpl(trylast=True)
    def pytest_configure(self) -> None:
        import hypothesis  # pytest has to prepare it first

        phases = [hypothesis.Phase.explicit, hypothesis.Phase.generate]
        hypothesis.settings.register_profile(
            "mutants",
            deadline=None,
            derandomize=True,
            database=None,
            phases=phases,
            suppress_health_check=list(hypothesis.HealthCheck),
        )
        hypothesis.settings.load_profile("mutants")
