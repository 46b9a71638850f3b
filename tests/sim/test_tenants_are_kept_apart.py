"""One seed of the plan ``grants`` in the short tier."""

from rhumbline.chaos.simulation.plans.grants import grants
from rhumbline.chaos.simulation.seed_run import run_plan


def test_a_revoked_tenant_gets_nothing_and_no_tenant_sees_records_of_another() -> None:
    result = run_plan(grants(4))
    assert result.violations == []
    assert result.states["revocations"] > 1
    assert result.states["appends of tenants"] > 20
    assert result.states["calls refused"] > 20
