"""Three losses at once, and one more every two seconds."""

from rhumbline.proxies.probing.loss_budget import LossBudget


def test_losses_are_limited() -> None:
    budget = LossBudget(0.0)
    assert [budget.take(0.1) for _ in range(4)] == [True, True, True, False]
    assert not budget.take(1.0)
    assert budget.take(2.2)
    assert not budget.take(2.3)
    assert [budget.take(60.0) for _ in range(4)] == [True, True, True, False]
