"""Stacks of perf become frames whose widths are their shares of the samples."""

from xml.etree import ElementTree

from rhumbline.bench.profile.flame_graph import Frame, draw_flame_graph, stacks_in

PERF = """
python
\tffffffff81000000 do_syscall_64+0x10 ([kernel.kallsyms])
\t    7f0000000000 epoll_wait+0x5 (/lib/libc.so.6)
\t          400000 main+0x1 (/usr/bin/python3)

python
\t    7f0000000010 CPyDef_add<int>+0x77 (/x/native.so)
\t          400000 main+0x1 (/usr/bin/python3)

python
\t    7f0000000020 [unknown] ([unknown])
"""


def test_stacks_are_read_outermost_first_and_functions_of_the_kernel_are_marked() -> None:
    assert list(stacks_in(PERF.splitlines())) == [
        ["main", "epoll_wait", "k:do_syscall_64"],
        ["main", "CPyDef_add<int>"],
        ["[unknown]"],
    ]
    assert list(stacks_in([])) == []


def test_what_calls_the_event_loop_and_what_only_calls_others_is_left_out() -> None:
    names = ("entry_SYSCALL_64", "__libc_write", "CPyDef_send", "_PyEval_Vector", "uv__run_idle",
             "uv_run", "Py_RunMain", "_start")  # fmt: skip
    sample = "".join(f"\t400000 {name}+0x1 (/x)\n" for name in names)
    assert list(stacks_in(sample.splitlines())) == [
        ["uv__run_idle", "CPyDef_send", "__libc_write", "entry_SYSCALL_64"]
    ]


def test_frames_are_as_wide_as_their_share_of_the_samples() -> None:
    root = Frame("all")
    for stack in stacks_in(PERF.splitlines()):
        root.add(stack)
    assert (root.samples, root.depth, root.callees["main"].samples) == (3, 4, 2)
    drawing = ElementTree.fromstring(draw_flame_graph("a <title>", root))
    widths = {}
    for group in drawing.iter("{http://www.w3.org/2000/svg}g"):
        title, rect, *_ = group
        widths[title.text] = float(rect.attrib["width"])
    assert widths == {
        "all: 100.0%": 1200,
        "main: 66.7%": 800,
        "epoll_wait: 33.3%": 400,
        "do_syscall_64: 33.3%": 400,
        "CPyDef_add<int>: 33.3%": 400,
        "[unknown]: 33.3%": 400,
    }
