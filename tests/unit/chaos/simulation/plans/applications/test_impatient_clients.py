"""The plan ``impatient-clients`` has the faults of ``proxies``, and other applications."""

from rhumbline.chaos.simulation.plans.applications.impatient_clients import impatient_clients
from rhumbline.chaos.simulation.plans.proxies import proxies


def test_the_faults_are_those_of_proxies_and_the_seed_differs() -> None:
    plan, other = impatient_clients(3), proxies(3)
    assert plan.faults == other.faults
    assert plan.seed != other.seed and plan.run is not other.run
