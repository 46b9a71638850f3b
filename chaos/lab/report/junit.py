"""Renders outcomes as JUnit XML, which CI systems can display."""

from collections.abc import Sequence
from xml.etree import ElementTree

from .scenario_outcome import ScenarioOutcome

_NOT_XML = {code: "?" for code in range(32) if chr(code) not in "\t\n\r"}


def junit_xml(outcomes: Sequence[ScenarioOutcome]) -> str:
    """Return a JUnit document with one test case per run and its problems as the failure."""
    suite = ElementTree.Element(
        "testsuite",
        name="rhumbline chaos",
        tests=str(len(outcomes)),
        failures=str(sum(not outcome.is_good for outcome in outcomes)),
        errors="0",
        time=f"{sum(outcome.real_s for outcome in outcomes):.3f}",
    )
    for outcome in outcomes:
        case = ElementTree.SubElement(
            suite,
            "testcase",
            classname=f"chaos.{outcome.world}",
            name=f"{outcome.scenario}[{outcome.seed}]",
            time=f"{outcome.real_s:.3f}",
        )
        if not outcome.is_good:
            text = "\n".join(outcome.problems).translate(_NOT_XML)
            failure = ElementTree.SubElement(case, "failure", message=text.splitlines()[0])
            failure.text = f"{text}\n\n{outcome.command}"
        out = ElementTree.SubElement(case, "system-out")
        out.text = (
            f"acknowledged {outcome.acked}, lost {outcome.lost}, duplicated {outcome.doubled}, "
            f"longest time without an acknowledged append {outcome.unavailable_ms:.0f} ms"
        )
    ElementTree.indent(suite)
    return ElementTree.tostring(suite, encoding="unicode", xml_declaration=True) + "\n"
