"""Tasks as numbers: the rank order that all launchers of a run agree on, and sets of ranks.

Tasks that serve for ever come first, because they stay until the end; then all others in the order
of the plan. The control plane is a shallow tree over this order: the first task that is there is
the hub, and a launcher's parent always has a lower rank than its own, so that no circle can form.
"""

from __future__ import annotations

from typing import Dict, Iterable, Iterator, List, Set

FAN_OUT = 32  # the children that a task has by rule
MOST_CHILDREN = 2 * FAN_OUT  # and that it accepts while others are gone
SCANNED = 8  # tasks tried beyond the ancestors in one round


def rank_order(roles: Dict[str, int], serving: Iterable[str]) -> List[str]:
    """All tasks in rank order, from role -> replicas and the roles that serve for ever."""
    first = set(serving)
    names = [name for name in roles if name in first] + [n for n in roles if n not in first]
    return [f"{name}-{index}" for name in names for index in range(roles[name])]


def ancestors(rank: int) -> Iterator[int]:
    """The parent by rule, its parent, and so on up to rank 0."""
    while rank > 0:
        rank = (rank - 1) // FAN_OUT
        yield rank


def candidates(rank: int, round_number: int, gone: Set[int]) -> List[int]:
    """Whom to try as a parent in this round: the ancestors, then a few others of lower rank.

    Round by round the others cover all lower ranks. Tasks that have finished are left out.
    """
    found = [other for other in ancestors(rank) if other not in gone]
    start = round_number * SCANNED
    scanned = 0
    for step in range(rank):
        other = (start + step) % rank
        if other not in gone and other not in found:
            found.append(other)
            scanned += 1
            if scanned == SCANNED:
                break
    return found


def pack(ranks: Iterable[int]) -> List[List[int]]:
    """A set of ranks as sorted [first, last] pairs."""
    found: List[List[int]] = []
    for rank in sorted(ranks):
        if found and found[-1][1] == rank - 1:
            found[-1][1] = rank
        else:
            found.append([rank, rank])
    return found


def unpack(pairs: object, size: int) -> Set[int]:
    """The set that `pack` wrote; ValueError for anything else, or for ranks that do not exist."""
    found: Set[int] = set()
    if not isinstance(pairs, list):
        raise ValueError("expected a list of pairs")
    for pair in pairs:
        if not isinstance(pair, list) or len(pair) != 2:
            raise ValueError("expected a pair")
        first, last = pair
        if type(first) is not int or type(last) is not int or not 0 <= first <= last < size:
            raise ValueError("expected two ranks")
        found.update(range(first, last + 1))
    return found
