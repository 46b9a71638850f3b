from rhumbline.chaos.lab.guide.__main__ import HOSTS
from rhumbline.chaos.lab.guide.guide_page import GuideBlock, read_guide
from rhumbline.tests.support.tidy.source_tree import ROOT

PAGE = """# A guide

## Start

```text
# on a b
first
## not a heading
```

```text
only shown
```

```bash
# on a
another language
```

## End

```text
# on b
last
```
"""


def test_blocks_that_name_hosts_run_in_order() -> None:
    assert read_guide(PAGE) == [
        GuideBlock("Start", ("a", "b"), "first\n## not a heading\n"),
        GuideBlock("End", ("b",), "last\n"),
    ]


def test_the_guide_for_three_regions_names_hosts_that_exist() -> None:
    blocks = read_guide((ROOT / "docs/how-to/run-three-regions.md").read_text())
    assert {host for block in blocks for host in block.hosts} == set(HOSTS)
    assert [*dict.fromkeys(block.section for block in blocks)] == [
        "Install",
        "Plan",
        "Size",
        "Certificates",
        "Settings",
        "Start",
        "Check",
        "Roll",
        "Grow",
        "Shrink",
        "Lose a region",
        "Return",
    ]
