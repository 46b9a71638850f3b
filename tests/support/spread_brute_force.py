"""Whether an ensemble is the best one, decided by trying all others; apart from the product's code.

Ensembles are compared by the rank of rule PLC-15 for regions (level and number of regions), then
by the copies that share a zone, a rack and a host (rule PLC-28), then by evenness and nearness.
Definitions are followed literally: every write set is looked at as a set. An ensemble is given up
early only if the members that it has already are as bad as the claimed best one. Domains of equal
content are tried once as long as they are unused; if E = WQ, the order of the members is too.
"""

from collections import Counter
from collections.abc import Mapping, Sequence

from rhumbline.core.protocol.quorum import Quorum, QuorumView

Path = tuple[str | None, ...]
Rank = tuple[int, ...]


def full_rank(
    quorum: Quorum,
    paths: Sequence[Path],
    near: str | None,
    former: Mapping[int, str | None] | None = None,
) -> Rank | None:
    """Return the rank of an ensemble, lower is better; None if it is not legal.

    ``former`` are the regions of the members that were replaced, by index.
    """
    view = QuorumView(quorum, [path[0] for path in paths])
    if not view.is_legal():
        return None
    write_sets = [quorum.write_set(entry) for entry in range(quorum.ensemble_size)]
    shared = [
        sum(
            quorum.write_quorum - len({paths[i][:depth] for i in members}) for members in write_sets
        )
        for depth in (2, 3, 4)
    ]
    counts = Counter(path[0] for path in paths)
    return (
        int(not view.is_robust()),
        int(view.is_fragile()),
        -len(counts),
        *shared,
        max(counts.values()) - min(counts.values()),
        -counts[near] if near is not None else 0,
        sum(1 for index, name in (former or {}).items() if paths[index][0] != name),
    )


class Contest:
    """Looks for an ensemble that is better than a claimed rank."""

    def __init__(
        self,
        quorum: Quorum,
        sizes: Mapping[Path, int],
        near: str | None,
        members: Sequence[Path | None] | None = None,
        former: Mapping[int, str | None] | None = None,
    ) -> None:
        """``sizes``: free bookies at each location. ``members``: None where one is wanted."""
        e = quorum.ensemble_size
        self._quorum = quorum
        self._near = near
        self._former = former or {}
        self._left = dict(sizes)
        self._locations = sorted(sizes, key=str)
        self._chosen: list[Path | None] = [None] * e if members is None else list(members)
        self._vacant = [index for index in range(e) if self._chosen[index] is None]
        self._order_counts = e > quorum.write_quorum
        self._regions = len({path[0] for path in (*sizes, *(p for p in self._chosen if p))})
        self._content = {
            path[:depth]: self._content_of(path[:depth], sizes)
            for path in sizes
            for depth in range(1, 5)
        }
        everywhere = [*sizes, *(p for p in self._chosen if p is not None)]
        self._write_sets = [
            quorum.write_set(entry) for entry in range(e if e > quorum.write_quorum else 1)
        ]
        self._write_sets *= e // len(self._write_sets)
        self._domains = {depth: len({p[:depth] for p in everywhere}) for depth in (2, 3, 4)}
        region_sizes = Counter(p[0] for p in self._chosen if p is not None)
        for path, count in sizes.items():
            region_sizes[path[0]] += count
        self._smallest = min(region_sizes.values(), default=0)
        self._shared_min = [self._fewest_shared(depth) for depth in (2, 3, 4)]
        self._claimed: Rank | None = None

    def better_than(self, claimed: Rank | None) -> Rank | None:
        """Return the rank of a better ensemble (of any legal one for None); None if none exists."""
        self._claimed = claimed
        return self._extend(0, -1)

    def _content_of(self, domain: Path, sizes: Mapping[Path, int]) -> object:
        depth = len(domain)
        is_near = depth == 1 and domain[0] == self._near
        below = {path[: depth + 1] for path in sizes if path[:depth] == domain and depth < 4}
        if not below:
            return sizes[domain], is_near
        return sorted(str(self._content_of(child, sizes)) for child in below), is_near

    def _extend(self, position: int, last: int) -> Rank | None:
        if position == len(self._vacant):
            found = full_rank(
                self._quorum, [p for p in self._chosen if p], self._near, self._former
            )
            is_better = found is not None and (self._claimed is None or found < self._claimed)
            return found if is_better else None
        index = self._vacant[position]
        for number, path in enumerate(self._locations):
            if self._left[path] == 0 or (not self._order_counts and number < last):
                continue
            if self._is_renamed(path):
                continue
            self._left[path] -= 1
            self._chosen[index] = path
            found = None
            if self._claimed is None:
                if self._may_be_legal(index):
                    found = self._extend(position + 1, number)
            elif self._least(position, self._claimed) < self._claimed:
                found = self._extend(position + 1, number)
            self._chosen[index] = None
            self._left[path] += 1
            if found is not None:
                return found
        return None

    def _may_be_legal(self, index: int) -> bool:
        """Return whether the complete write sets of a member have enough regions."""
        for members in self._write_sets:
            present = [p[0] for i in members if (p := self._chosen[i]) is not None]
            missing = self._quorum.write_quorum - len(present)
            if index in members and len(set(present)) + missing < self._quorum.min_regions:
                return False
        return True

    def _is_renamed(self, path: Path) -> bool:
        """True if the location lies in an unused domain, and an equal one comes before it."""
        used = {p[:depth] for p in self._chosen if p is not None for depth in range(1, 5)}
        for depth in range(1, 5):
            domain = path[:depth]
            if domain in used:
                continue
            for other in self._content:
                if (
                    len(other) == depth
                    and other[:-1] == domain[:-1]
                    and str(other) < str(domain)
                    and other not in used
                    and self._content[other] == self._content[domain]
                ):
                    return True
            return False
        return False

    def _least(self, position: int, claimed: Rank) -> Rank:
        """Return a rank that no completion of the present members is better than.

        If it is as good as the claimed one so far, neither evenness nor nearness can exceed what E
        copies in that many regions permit.
        """
        quorum, chosen = self._quorum, self._chosen
        e, wq = quorum.ensemble_size, quorum.write_quorum
        shared = [0, 0, 0]
        is_robust, is_fragile = True, wq == quorum.ack_quorum
        for members in self._write_sets:
            present = [p for i in members if (p := chosen[i]) is not None]
            for depth in (2, 3, 4):
                domains = len({p[:depth] for p in present})
                least = wq - min(self._domains[depth], wq)
                shared[depth - 2] += max(len(present) - domains, least)
            most = max(Counter(p[0] for p in present).values(), default=0)
            is_robust = is_robust and most <= wq - quorum.ack_quorum
            if len(present) == wq and quorum.min_regions > 1:
                inside = Counter(p[0] for p in present)
                if len(inside) <= quorum.min_regions:
                    is_robust = False
                    is_fragile = is_fragile or 1 in inside.values()
                if len(inside) < quorum.min_regions:
                    return (2,)  # not legal
        shared = [max(pair) for pair in zip(shared, self._shared_min, strict=True)]
        counts = Counter(p[0] for p in chosen if p is not None)
        left = len(self._vacant) - position - 1
        regions = min(self._regions, len(counts) + left)
        count = -claimed[2]
        uneven = max(*counts.values(), -(-e // count)) - min(e // count, self._smallest)
        near = min(counts[self._near] + left, (e + (count - 1) * claimed[6]) // count)
        moved = sum(1 for i, name in self._former.items() if (p := chosen[i]) and p[0] != name)
        return (
            *(int(not is_robust), int(is_fragile), -regions, *shared),
            *(uneven, -near if self._near is not None else 0, moved),
        )

    def _fewest_shared(self, depth: int) -> int:
        """Return what domains of their sizes share at least, each with k copies k * WQ - E."""
        quorum = self._quorum
        e, wq = quorum.ensemble_size, quorum.write_quorum
        copies: Counter[Path] = Counter()
        room = Counter({p[:depth]: 0 for p in self._left})
        for path, count in self._left.items():
            room[path[:depth]] += count
        for member in self._chosen:
            if member is not None:
                copies[member[:depth]] += 1
        for _ in self._vacant:
            open_ = [d for d in room if room[d] > 0]
            if not open_:
                return 0
            best = min(
                open_, key=lambda d: max(0, (copies[d] + 1) * wq - e) - max(0, copies[d] * wq - e)
            )
            copies[best] += 1
            room[best] -= 1
        return sum(max(0, count * wq - e) for count in copies.values())
