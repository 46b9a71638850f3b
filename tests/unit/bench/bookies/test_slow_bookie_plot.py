"""Tests of the plot of latencies over time."""

from xml.etree import ElementTree

from rhumbline.bench.bookies.slow_bookie_plot import plot

SVG = "{http://www.w3.org/2000/svg}"


def test_plot_has_a_point_for_each_second_and_larger_values_are_higher() -> None:
    text = plot(
        "a < b", [("one", [10, 20, 400]), ("two", [30.5, 40, 0, 50])], marked_from=1, mark="slow"
    )
    root = ElementTree.fromstring(text)
    curves = [line.get("points") or "" for line in root.iter(f"{SVG}polyline")]
    points = [[tuple(map(float, p.split(","))) for p in curve.split()] for curve in curves]
    assert [len(curve) for curve in points] == [3, 2, 1], "0 is a gap"
    xs, ys = zip(*points[0], strict=True)
    assert list(xs) == sorted(xs)
    assert list(ys) == sorted(ys, reverse=True)
    labels = [element.text for element in root.iter(f"{SVG}text")]
    assert {"a < b", "one", "two", "slow", "100 ms"} <= set(labels)
    width, height = float(root.get("width") or 0), float(root.get("height") or 0)
    assert all(0 <= x <= width and 0 <= y <= height for curve in points for x, y in curve)
