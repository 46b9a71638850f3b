"""The table and the picture of a game day."""

from xml.etree import ElementTree

from rhumbline.chaos.lab.game_day.alert_log import Firing
from rhumbline.chaos.lab.game_day.day_report import StepResult, draw_day, step_table
from rhumbline.chaos.lab.game_day.prometheus import Alert

DOWN = Alert("RhumblineBookieDown", "east-1", "warning", "bookie east-1 does not respond")
FULL = Alert("RhumblineDiskExhausted", "east-1", "critical", "the disk is full")


def steps() -> list[StepResult]:
    return [
        StepResult(
            "lose-disk", 5.0, 10.0, 60.0, red_s=12.0, green_s=50.0, acted_s=40.0, gap_s=0.4,
            firings=[Firing(DOWN, 20.0, 45.0), Firing(FULL, 21.0)],
        ),
        StepResult("drain-region", 60.0, ended_s=90.0, failure="the drain did not end"),
    ]  # fmt: skip


def test_a_step_has_a_row_for_each_alert() -> None:
    assert step_table(steps()).splitlines() == [
        "STEP          ALERT                 FIRED  CLEARED  RED    ACTION  GREEN  NO ACK",
        "lose-disk     BookieDown east-1     10 s   35 s     2 s    30 s    40 s   0.4 s",
        "              DiskExhausted east-1  11 s   never",
        "drain-region  none                                  never                 0.0 s",
        "              DID NOT END: the drain did not end",
    ]


def test_the_picture_shows_each_alert_each_step_and_doctor() -> None:
    spans = [firing for step in steps() for firing in step.firings]
    picture = draw_day(steps(), spans, [(0.0, True), (12.0, False), (50.0, True)])
    texts = [each.text for each in ElementTree.fromstring(picture).iter() if each.text]
    assert {"BookieDown east-1", "DiskExhausted east-1", "lose-disk", "drain-region"} <= {*texts}
    bars = [each.get("fill") for each in ElementTree.fromstring(picture) if "rect" in each.tag]
    assert bars.count("#c0392b") == 2, "a critical alert, and doctor while it is red"
    assert bars.count("#d68910") == 1
    assert bars.count("#2e8b57") == 2
