"""The time spans in which alerts fire."""

from rhumbline.chaos.lab.game_day.alert_log import AlertLog, Firing
from rhumbline.chaos.lab.game_day.prometheus import Alert

DOWN = Alert("Down", "east-1", "warning", "east-1 is down")
DOWN_TOO = Alert("Down", "east-2", "warning", "east-2 is down")


def test_an_alert_fires_from_its_first_to_its_last_observation() -> None:
    log = AlertLog()
    assert log.observe(1.0, [DOWN]) == ([DOWN], [])
    assert log.observe(2.0, [DOWN, DOWN_TOO]) == ([DOWN_TOO], [])
    assert log.observe(3.0, [DOWN_TOO]) == ([], [DOWN])
    assert log.spans == [Firing(DOWN, 1.0, 3.0), Firing(DOWN_TOO, 2.0)]
    assert log.firing() == [Firing(DOWN_TOO, 2.0)]
    assert log.fires("Down") and not log.fires("Up")


def test_a_summary_that_changes_is_not_a_new_alert() -> None:
    log = AlertLog()
    log.observe(1.0, [Alert("Lag", "", "warning", "5 s behind")])
    assert log.observe(2.0, [Alert("Lag", "", "warning", "6 s behind")]) == ([], [])


def test_an_alert_that_fires_again_has_two_spans() -> None:
    log = AlertLog()
    for at, alerts in ((1.0, [DOWN]), (2.0, []), (3.0, [DOWN])):
        log.observe(at, alerts)
    assert log.since(0.0, 3.0) == [Firing(DOWN, 1.0, 2.0)]
    assert log.since(3.0, 9.0) == [Firing(DOWN, 3.0)]


def test_expected_alerts_do_not_disturb_the_calm() -> None:
    log = AlertLog()
    log.observe(1.0, [DOWN])
    assert not log.is_calm()
    log.accept_firing()
    assert log.is_calm()
    log.observe(2.0, [DOWN, DOWN_TOO])
    assert not log.is_calm()
