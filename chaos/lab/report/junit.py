"""Outcomes as JUnit XML, which every CI shows."""

from collections.abc import Sequence
from xml.etree import ElementTree

from .scenario_outcome import ScenarioOutcome

_NOT_XML = {code: "?" for code in range(32) if chr(code) not in "\t\n\r"}


def junit_xml(outcomes: Sequence[ScenarioOutcome]) -> str:
    """One test case for each run; what is wrong with it is its failure."""
    suite = ElementTree.Element(
        "testsuite",
        name="rhumbline chaos",
        tests=str(len(outcomes)),
        failures=str(sum(not one.is_good for one in outcomes)),
        errors="0",
        time=f"{sum(one.real_s for one in outcomes):.3f}",
    )
    for one in outcomes:
        case = ElementTree.SubElement(
            suite,
            "testcase",
            classname=f"chaos.{one.world}",
            name=f"{one.scenario}[{one.seed}]",
            time=f"{one.real_s:.3f}",
        )
        if not one.is_good:
            text = "\n".join(one.faults).translate(_NOT_XML)
            failure = ElementTree.SubElement(case, "failure", message=text.splitlines()[0])
            failure.text = f"{text}\n\n{one.command}"
        out = ElementTree.SubElement(case, "system-out")
        out.text = (
            f"acknowledged {one.acked}, lost {one.lost}, doubled {one.doubled}, "
            f"longest without an append {one.unavailable_ms:.0f} ms"
        )
    ElementTree.indent(suite)
    return ElementTree.tostring(suite, encoding="unicode", xml_declaration=True) + "\n"
