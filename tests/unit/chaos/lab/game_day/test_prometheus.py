"""The rules of a game day are those of the product with shorter times."""

from rhumbline.chaos.lab.game_day.prometheus import (
    Alert,
    configuration,
    firing_alerts,
    scaled_rules,
)

RULES = """\
      - alert: Slow
        expr: histogram_quantile(0.99, rate(writes_bucket[5m])) > 0.5
        for: 10m
      - alert: Often
        expr: increase(failures_total[30m]) > 300
        for: 6h
      - alert: Soon
        expr: rate(refused_total[10s]) > 0
        for: 5s
"""


def test_times_are_divided_and_thresholds_are_kept() -> None:
    assert scaled_rules(RULES, 20) == """\
      - alert: Slow
        expr: histogram_quantile(0.99, rate(writes_bucket[15s])) > 0.5
        for: 30s
      - alert: Often
        expr: increase(failures_total[90s]) > 300
        for: 1080s
      - alert: Soon
        expr: rate(refused_total[8s]) > 0
        for: 1s
"""  # fmt: skip


def test_rules_of_scale_one_are_the_same_times() -> None:
    assert "for: 600s" in scaled_rules(RULES, 1)
    assert "[300s]" in scaled_rules(RULES, 1)


def test_every_target_is_named_after_its_server() -> None:
    text = configuration({"rhumbline-bookie": {"east-1": "127.0.0.1:1", "east-2": "127.0.0.1:2"}})
    assert "  - job_name: rhumbline-bookie\n" in text
    assert '- {targets: ["127.0.0.1:2"], labels: {instance: "east-2"}}\n' in text


def test_only_firing_alerts_are_returned() -> None:
    labels = {"alertname": "Down", "instance": "east-1", "job": "bookie", "severity": "warning"}
    firing = {"state": "firing", "labels": labels, "annotations": {"summary": "east-1 is down"}}
    pending = {**firing, "state": "pending"}
    document = {"data": {"alerts": [pending, firing]}}
    assert firing_alerts(document) == [Alert("Down", "east-1", "warning", "east-1 is down")]
