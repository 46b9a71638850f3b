"""Draws the stacks that ``perf script`` prints as a flame graph in SVG."""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from html import escape
from zlib import crc32

_WIDTH, _ROW, _HEAD = 1200, 17, 44
_SHARE_MIN = 0.001
_CHARACTER_WIDTH = 6.6
_LOOP = "uv_run"
"""The event loop of uvloop, below which all work is done."""
_GLUE = re.compile(
    r"\[unknown\]|_*Py[A-Z_x]|_*pyx_|do_call|method_|slot_tp|cfunction_|gen_send|task_step|"
    r"TaskStep|vectorcall|run_mod|run_eval|pymain|entry_SYSCALL|do_syscall_64|ksys_|__x64_sys"
)
"""Functions of the interpreter that call functions, and entries into the kernel."""
_KERNEL, _USER = ("#e8a33d", "#eebd6f"), ("#5b9bd5", "#8fbce6")


@dataclass(slots=True)
class Frame:
    """A function in a stack: the samples in it and below it."""

    name: str
    samples: int = 0
    callees: "dict[str, Frame]" = field(default_factory=dict)

    def add(self, stack: Sequence[str]) -> None:
        """Count a sample with this stack, outermost function first."""
        frame = self
        frame.samples += 1
        for name in stack:
            frame = frame.callees.setdefault(name, Frame(name))
            frame.samples += 1

    @property
    def depth(self) -> int:
        """The number of frames in the deepest stack, including this one."""
        return 1 + max((callee.depth for callee in self.callees.values()), default=0)


def stacks_in(lines: Iterable[str]) -> Iterator[list[str]]:
    """Yield the stacks in the output of ``perf script -F comm,ip,sym,dso``, outermost first.

    A function of the kernel gets the prefix ``k:``. What calls the event loop is left out, and so
    are functions that only call other functions: the innermost function is always kept.
    """
    stack: list[str] = []
    for line in lines:
        if not line.strip():
            if stack:
                yield _shortened(stack)
            stack = []
        elif line.startswith(("\t", " ")):
            _, _, rest = line.strip().partition(" ")
            symbol, _, library = rest.rpartition(" (")
            name = symbol.partition("+0x")[0].strip() or "[unknown]"
            is_kernel = library.startswith("[kernel") or library.startswith("[guest.kernel")
            stack.append(f"k:{name}" if is_kernel else name)
    if stack:
        yield _shortened(stack)


def _shortened(stack: list[str]) -> list[str]:
    """Return a stack, which is given innermost first, outermost first and without glue."""
    if _LOOP in stack:
        stack = stack[: stack.index(_LOOP)] or [_LOOP]
    kept = [name for name in stack[1:] if not _GLUE.match(name.removeprefix("k:"))]
    return [*reversed(kept), stack[0]]


def draw_flame_graph(title: str, root: Frame) -> str:
    """Return an SVG document: the width of a frame is its share of the samples."""
    height = _HEAD + _ROW * root.depth + 8
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" '
            f'width="{_WIDTH}" height="{height}" font-family="monospace" font-size="11">',
            f"<title>{escape(title)}</title>",
            f'<rect width="{_WIDTH}" height="{height}" fill="white"/>',
            f'<text x="8" y="20" font-size="15" font-family="sans-serif">{escape(title)}</text>',
            '<text x="8" y="36" font-family="sans-serif">blue: user space, orange: kernel; '
            f"{root.samples} samples</text>",
            *_draw(root, 0.0, 0, root.samples),
            "</svg>\n",
        ]
    )


def _draw(frame: Frame, left: float, level: int, total: int) -> Iterator[str]:
    share = frame.samples / max(total, 1)
    if share < _SHARE_MIN:
        return
    width, top = share * _WIDTH, _HEAD + _ROW * level
    is_kernel = frame.name.startswith("k:")
    colour = (_KERNEL if is_kernel else _USER)[crc32(frame.name.encode()) % 2]
    name = frame.name.removeprefix("k:")
    yield f"<g><title>{escape(name)}: {share:.1%}</title>"
    yield (
        f'<rect x="{left:.1f}" y="{top}" width="{width:.1f}" height="{_ROW - 1}" fill="{colour}"/>'
    )
    shown = name[: int((width - 4) / _CHARACTER_WIDTH)] if width > 20 else ""
    if shown:
        yield f'<text x="{left + 2:.1f}" y="{top + 12}">{escape(shown)}</text>'
    yield "</g>"
    for callee in sorted(frame.callees.values(), key=lambda found: found.name):
        yield from _draw(callee, left, level + 1, total)
        left += callee.samples / max(total, 1) * _WIDTH
