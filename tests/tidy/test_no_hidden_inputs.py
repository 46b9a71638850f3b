"""Checks that core, placement and regions get time, randomness and files only from callers."""

import ast

import pytest

from rhumbline.tests.support.tidy import hidden_inputs, source_tree

IMPURE = {"asyncio", "grpc", "os", "time", "random", "socket", "logging", "threading", "uvloop"}


@pytest.mark.parametrize(
    "sample",
    [
        "import time\nnow = time.time()",
        "from time import monotonic as clock\nnow = clock()",
        "import random\nx = random.random()",
        "from random import Random\nr = Random()",
        "import uuid\nx = uuid.uuid4()",
        "import os\nx = os.urandom(8)",
        "import threading\nlock = threading.Lock()",
        "import asyncio\ng = asyncio.TaskGroup()",
        "import asyncio\nasync def f(a):\n    await asyncio.wait(a)",
        "import asyncio\nasync def f(*a):\n    await asyncio.gather(*a)",
        "from asyncio import gather\nasync def f(*a):\n    await gather(*a)",
        "from datetime import datetime\nx = datetime.now()",
        "f = open('x')",
        "for x in {'a', 'b'}:\n    print(x)",
        "for x in set(names):\n    print(x)",
        "xs = [x for x in set(a) | set(b)]",
        "xs = list({x for x in a})",
        "def f(a: set[str]) -> None:\n    for x in a:\n        print(x)",
        "def f():\n    waiting = set()\n    for x in waiting:\n        print(x)",
        "class A:\n    def __init__(self):\n        self.w: set[A] = set()\n"
        "    def f(self):\n        for x in self.w:\n            print(x)",
        "class A:\n    def __init__(self):\n        self.w = set()\n"
        "    def f(self):\n        return self.w.pop()",
        "text = ', '.join({'a', 'b'})",
    ],
)
def test_hidden_inputs_are_found(sample: str) -> None:
    assert hidden_inputs.faults(ast.parse(sample))


@pytest.mark.parametrize(
    "sample",
    [
        "import random\nr = random.Random(1)\nx = r.random()",
        "for x in sorted({'a', 'b'}):\n    print(x)",
        "known = {'a'}\nx = 'a' in known",
        "n = sum(1 for x in {'a', 'b'})",
        "class A:\n    def open(self):\n        return self.disk.open('x')",
        "def f(a: set[int]) -> None:\n    for x in a:\n        print(x)",
        "d = {}\nfor x in d:\n    print(x)",
    ],
)
def test_deterministic_code_passes(sample: str) -> None:
    assert hidden_inputs.faults(ast.parse(sample)) == []


def test_simulated_code_has_no_hidden_inputs() -> None:
    modules = source_tree.product_modules("core", "placement", "regions")
    faults = [
        f"{m}:{fault}" for m in modules for fault in hidden_inputs.faults(source_tree.parse(m))
    ]
    assert modules
    assert not faults, "\n".join(faults)


def test_protocol_is_pure() -> None:
    modules = source_tree.product_modules("core/protocol")
    faults = []
    for module in modules:
        imported = hidden_inputs.imported_names(source_tree.parse(module)).values()
        # The class is named in signatures only: a Random always comes from the caller.
        bad = [n for n in imported if n.split(".")[0] in IMPURE and n != "random.Random"]
        faults += [f"{module}: imports {name}" for name in bad]
    assert modules
    assert not faults, "\n".join(faults)
