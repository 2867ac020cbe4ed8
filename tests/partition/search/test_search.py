"""The search against brute force, and the checker against wrong proofs."""

from __future__ import annotations

import copy
import io
import itertools
import random
import re
from typing import Any

import numpy as np
import pytest

from dimsolve.partition.search import labels
from dimsolve.partition.search.bounds import Elimination, elimination_order
from dimsolve.partition.search.check import NotProved, check_bound, check_choice
from dimsolve.partition.search.clock import Clock, TimeUp
from dimsolve.partition.search.core import Core
from dimsolve.partition.search.nearby import Nearby
from dimsolve.partition.search.problem import FORBIDDEN, Problem
from dimsolve.partition.search.search import WORK, Search, solve


def random_problem(seed: int) -> Problem:
    """A few nodes of a few options, with forbidden ones; every second has a limit, and of every
    third all tables of one shape are one object, as those of repeated layers are.
    """
    rng = random.Random(seed)
    count = rng.randint(1, 7)
    sizes = [rng.randint(1, 4) for _ in range(count)]
    forbidden = rng.choice([0.0, 0.1, 0.4])

    def number() -> int:
        return FORBIDDEN if rng.random() < forbidden else rng.randint(0, 12)

    costs = [[number() for _ in range(k)] for k in sizes]
    pairs = [p for p in itertools.combinations(range(count), 2) if rng.random() < 0.5]
    edges = [
        (i, j, [[number() for _ in range(sizes[j])] for _ in range(sizes[i])]) for i, j in pairs
    ]
    if seed % 3 == 0:
        alike: dict[tuple[int, int], Any] = {}
        edges = [
            (i, j, alike.setdefault((sizes[i], sizes[j]), np.array(table))) for i, j, table in edges
        ]
    usages = []
    for k in sizes:
        stretches = []
        for _ in range(rng.randint(0, 2)):
            start = rng.randint(0, 5)
            stop = start + rng.randint(1, 4)
            stretches.append((start, stop, [rng.randint(0, 9) for _ in range(k)]))
        usages.append(stretches)
    limit = rng.randint(0, 25) if seed % 2 else None
    return Problem.of(costs, edges, usages, limit)


def brute_force(problem: Problem) -> int:
    """The least cost of any choice that fits; FORBIDDEN where none does."""
    choices = itertools.product(*(range(len(c)) for c in problem.costs))
    return min((problem.cost(c) for c in choices if problem.fits(c)), default=FORBIDDEN)


@pytest.mark.parametrize("part", range(4))
def test_the_answer_is_the_least_and_its_proof_is_accepted(part: int, monkeypatch: object) -> None:
    for seed in range(part * 250, part * 250 + 250):
        problem = random_problem(seed)
        answer, least = solve(problem), min(brute_force(problem), FORBIDDEN)
        assert (answer.cost, answer.bound) == (least, least), seed
        check_bound(problem, answer.bound, answer.steps)
        if least < FORBIDDEN:
            assert answer.chosen is not None
            check_choice(problem, answer.chosen, answer.cost)


def stored_problem(seed: int) -> Problem:
    """Nodes in a row, or a ring, that each hold much or cost much, at two times that overlap: what
    prices leave a gap of.
    """
    rng = random.Random(seed)
    count = rng.randint(5, 8)
    costs, usages, edges = [], [], []
    for n in range(count):
        k = rng.randint(2, 3)
        held = sorted((rng.randint(0, 30) for _ in range(k)), reverse=True)
        costs.append(sorted(rng.randint(0, 30) for _ in range(k)))
        first, second = (0, 2), (1, 3)
        usages.append([(*(first if n % 2 else second), held)])
    pairs = [(n, (n + 1) % count) for n in range(count - rng.randint(0, 1))]
    for i, j in pairs:
        table = [[rng.randint(0, 6) for _ in costs[j]] for _ in costs[i]]
        if rng.random() < 0.3:
            table[rng.randrange(len(table))][rng.randrange(len(table[0]))] = FORBIDDEN
        edges.append((i, j, table))
    most = sum(max(u) for ((_, _, u),) in usages)
    return Problem.of(costs, edges, usages, rng.randint(most // 5, most))


def kinds_of(steps: list[Any]) -> set[str]:
    """The kinds of steps of a proof, those of its cases too."""
    found = {step[0] for step in steps}
    for step in steps:
        if step[0] == "split":
            found |= set().union(*map(kinds_of, step[3]))
    return found


def test_labels_close_the_gap_that_prices_leave() -> None:
    """No cases are needed; and changed proofs, of a bound that is too large, are refused."""
    rng = random.Random(3)
    labelled = 0
    for seed in range(300):
        problem = stored_problem(seed)
        answer, least = solve(problem), min(brute_force(problem), FORBIDDEN)
        assert (answer.cost, answer.bound) == (least, least), seed
        check_bound(problem, answer.bound, answer.steps)
        kinds = kinds_of(answer.steps)
        assert "split" not in kinds
        if "labels" not in kinds:
            continue
        labelled += 1
        for _ in range(4):
            steps = copy.deepcopy(answer.steps)
            mutate(steps, rng, answer.bound + 1)
            with pytest.raises(NotProved):
                check_bound(problem, answer.bound + 1, steps)
    assert labelled > 40


def test_cases_of_what_holds_most_come_before_labels() -> None:
    """One node of many holds more than the limit leaves to all others; beside a knapsack."""
    split = 0
    for seed in range(12):
        rng = random.Random(seed)
        many = [(rng.randint(20, 60), rng.randint(2, 9)) for _ in range(70)]  # dearer, or held
        costs = [[0, 700], *[[0, more] for more, _ in many]]
        held = [[150, 0], *[[own, 0] for _, own in many]]
        limit = 200 + rng.randint(0, 60)
        problem = Problem.of(costs, [], [[(0, 1, each)] for each in held], limit)
        answer = solve(problem)
        least = min(knapsack(many, limit - 150), 700 + knapsack(many, limit))
        assert (answer.cost, answer.bound) == (least, least), seed
        check_bound(problem, answer.bound, answer.steps)
        split += "split" in kinds_of(answer.steps)
    assert split


def knapsack(many: list[tuple[int, int]], room: int) -> int:
    """What it costs at least that of these no more is held than there is room for."""
    best = [0] * (room + 1)
    for more, own in many:
        best = [
            min(best[r] + more, best[r - own] if r >= own else FORBIDDEN) for r in range(room + 1)
        ]
    return best[room]


def test_where_labels_are_too_many_cases_are_proved(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(labels, "MOST_LABELS", 2)
    split = 0
    for seed in range(100):
        problem = stored_problem(seed)
        answer, least = solve(problem), min(brute_force(problem), FORBIDDEN)
        assert (answer.cost, answer.bound) == (least, least), seed
        check_bound(problem, answer.bound, answer.steps)
        split += "split" in kinds_of(answer.steps)
    assert split > 5


@pytest.mark.parametrize("seed", range(3))
def test_a_walk_leads_to_choices_that_fit_and_the_same_ones_again(seed: int) -> None:
    """From any choice that is allowed, at prices of what is held."""
    problem = stored_problem(seed)
    core, taken = Core(problem), list[tuple[int, bool]]()
    own = {i: c + sum(u for _, _, u in core.usages[i]) for i, c in core.costs.items()}

    def offer(found: dict[int, int]) -> bool:
        whole = core.choice(found)
        taken.append((problem.cost(whole), problem.fits(whole)))
        return taken[-1][1]

    def priced(factor: float) -> Any:
        return {i: core.costs[i] + factor * (own[i] - core.costs[i]) for i in own}

    first = min(itertools.product(*(range(len(c)) for c in core.costs.values())), key=problem.cost)
    for _ in range(2):
        Nearby(priced, core.edges, offer).walk(dict(enumerate(first)), 60, lambda: False)
    assert taken[:60] == taken[60:] and len(taken) == 120
    best = brute_force(problem)
    assert best >= FORBIDDEN or min(cost for cost, fits in taken if fits) <= 2 * best


@pytest.mark.parametrize("part", range(2))
def test_messages_and_cases_prove_what_elimination_proves(part: int) -> None:
    """With no room for tables the same answers come from messages and cases."""
    for seed in range(10_000 + part * 150, 10_000 + part * 150 + 150):
        problem = random_problem(seed)
        answer, least = solve(problem, work=6), min(brute_force(problem), FORBIDDEN)
        assert (answer.cost, answer.bound) == (least, least), seed
        check_bound(problem, answer.bound, answer.steps)


def test_a_larger_bound_is_never_proved() -> None:
    for seed in range(20_000, 20_300):
        problem = random_problem(seed)
        answer = solve(problem)
        if answer.chosen is not None:
            with pytest.raises(NotProved):
                check_bound(problem, answer.bound + 1, answer.steps)
            with pytest.raises(NotProved):
                check_choice(problem, answer.chosen, answer.cost - 1)


def test_prices_on_the_whole_problem_bound_it_from_below() -> None:
    """Their proofs are accepted, also those with prices, and changed ones prove not too much."""
    priced = 0
    rng = random.Random(2)
    for seed in range(60_001, 60_400, 2):
        problem, search = random_problem(seed), Search(random_problem(seed), Clock(), WORK)
        search.begin()
        answer, least = search.without_limit(), min(brute_force(problem), FORBIDDEN)
        assert answer.bound <= least <= search.target
        check_bound(problem, answer.bound, answer.steps)
        if least < FORBIDDEN:
            for _ in range(3):
                steps = copy.deepcopy(answer.steps)
                mutate(steps, rng, least + 1)
                with pytest.raises(NotProved):
                    check_bound(problem, least + 1, steps)
        kind, *said = answer.steps[0]
        priced += kind == "price" and bool(said[1])
    assert priced > 20


def test_a_changed_proof_never_proves_too_much() -> None:
    """1,000 changed proofs of a bound that is too large by one are refused."""
    refused = 0
    rng = random.Random(1)
    for seed in itertools.count(30_000):
        problem = random_problem(seed)
        answer = solve(problem)
        if answer.chosen is None:
            continue
        for _ in range(5):
            steps = copy.deepcopy(answer.steps)
            mutate(steps, rng, answer.bound + 1)
            with pytest.raises(NotProved):
                check_bound(problem, answer.bound + 1, steps)
            refused += 1
        if refused >= 1000:
            return


def mutate(steps: list, rng: random.Random, target: int) -> None:
    """Changes some numbers, removes, repeats and swaps steps; targets are raised to the claim."""
    leaves: list[tuple[object, object]] = []

    def visit(tree: object) -> None:
        items = tree.items() if isinstance(tree, dict) else enumerate(tree)  # type: ignore[arg-type]
        for key, item in list(items):
            if isinstance(item, dict | list):
                visit(item)
            elif isinstance(item, int):
                if key == "target":
                    tree[key] = max(item, target)  # type: ignore[index]
                else:
                    leaves.append((tree, key))

    visit(steps)
    for _ in range(rng.randint(0, 3)):
        if leaves:
            tree, key = rng.choice(leaves)
            tree[key] += rng.choice([-100, -2, -1, 1, 2, 100])  # type: ignore[index]
    if steps and rng.random() < 0.5:
        at = rng.randrange(len(steps))
        match rng.randrange(3):
            case 0:
                del steps[at]
            case 1:
                steps.insert(rng.randrange(len(steps)), copy.deepcopy(steps[at]))
            case _:
                rng.shuffle(steps)


def test_a_time_limit_leaves_a_choice_and_a_bound_that_is_proved() -> None:
    for seed in range(40_001, 40_100, 2):
        problem = random_problem(seed)
        answer = solve(problem, clock=Clock(0.0))
        assert answer.bound <= min(brute_force(problem), FORBIDDEN)
        check_bound(problem, answer.bound, answer.steps)


class Interrupting(Clock):
    """The user presses Ctrl-C when the time is asked for the nth time."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self.number = number

    @property
    def late(self) -> bool:
        self.number -= 1
        if not self.number:
            raise KeyboardInterrupt
        return super().late


def test_an_interrupted_search_leaves_a_choice_and_a_bound_that_is_proved() -> None:
    for seed in range(50_001, 50_100, 2):
        problem = random_problem(seed)
        answer = solve(problem, clock=Interrupting(seed % 9 + 1), work=6)
        assert answer.bound <= min(brute_force(problem), FORBIDDEN) <= answer.cost
        check_bound(problem, answer.bound, answer.steps)


def test_a_line_says_what_is_known_and_is_wiped() -> None:
    stream = io.StringIO()
    clock = Clock(1000.0, lambda: "searching", stream)
    assert not clock.late and not stream.getvalue()
    clock.began -= 100.0
    clock.stop()
    assert clock.late
    with pytest.raises(TimeUp):
        clock.check()
    clock = Clock(1000.0, lambda: "searching", stream)
    clock.began, clock.shown = clock.began - 100.0, clock.shown - 1.0
    assert not clock.late
    line = stream.getvalue()
    assert re.fullmatch(r"\rsearching   1\d\d of 1000 s", line)
    clock.wipe()
    assert stream.getvalue() == line + "\r" + " " * (len(line) - 1) + "\r"
    assert not clock.late and stream.getvalue().endswith(" \r")


def test_equal_arrays_are_one_object() -> None:
    table = np.array([[0, 1], [1, 0]])
    problem = Problem.of([[0, 0]] * 3, [(0, 1, table), (1, 2, table)])
    assert problem.edges[0, 1] is not None and problem.cost([0, 1, 0]) == 2


def layers(seed: int, count: int) -> tuple[Problem, int]:
    """So many equal layers, each beside the next two, all of which see one node; and the least
    cost, by a table of the last two.
    """
    rng = np.random.default_rng(seed)
    own, seen = rng.integers(0, 9, 5), rng.integers(0, 9, (3, 5))
    near, far = rng.integers(0, 40, (5, 5)), rng.integers(0, 40, (5, 5))
    near[rng.random((5, 5)) < 0.2] = FORBIDDEN
    edges: list[Any] = [(0, n + 1, seen) for n in range(count)]
    edges += [(n, n + 1, near) for n in range(1, count)]
    edges += [(n, n + 2, far) for n in range(1, count - 1)]
    best = FORBIDDEN
    for hub in range(3):
        node = own + seen[hub]
        table = node[:, None] + node[None, :] + near
        for _ in range(count - 2):
            longer = table[:, :, None] + near[None, :, :] + far[:, None, :] + node[None, None, :]
            table = np.minimum(longer.min(0), FORBIDDEN)
        best = min(best, int(table.min()))
    return Problem.of([[0, 0, 0], *[own] * count], edges), best


@pytest.mark.parametrize("seed", range(6))
def test_equal_layers_are_eliminated_until_they_repeat(seed: int) -> None:
    """As powers of a matrix over (min, +): more layers take no more tables."""
    made = []
    for count in (40, 80):
        problem, least = layers(seed, count)
        core = Core(problem, only_bounds=True)
        order = elimination_order(core, WORK, WORK)
        assert order is not None
        found = Elimination(order, core.costs, core.edges)
        assert min(found.least, FORBIDDEN) == least
        if least < FORBIDDEN:
            assert problem.cost(core.choice(found.chosen())) == least
            over = found.marginals()
            assert all(each.min() == least for each in over.values())
        made.append(len(found.parts))
        answer = solve(problem)
        assert (answer.cost, answer.bound) == (least, least)
        check_bound(problem, least, answer.steps)
        with pytest.raises(NotProved):
            check_bound(problem, least + 1, answer.steps)
    assert (made[1] == made[0]) == (seed != 2)  # whose tables go on to differ by more


def test_a_proof_at_few_times_knows_no_limit_at_others() -> None:
    """What is held at time 0 forces the dear option; at time 2 nothing is held."""
    usages = [[(0, 1, [9, 0]), (2, 3, [0, 0])], [(0, 1, [0, 0]), (2, 3, [1, 1])]]
    problem = Problem.of([[1, 5], [2, 2]], [(0, 1, np.zeros((2, 2), np.int64))], usages, 4)
    bound = {"weight": 1, "prices": [], "target": 7, "order": [0, 1], "messages": None}
    check_bound(problem, 7, [["times", [0, 2]], ["row", [0]], ["bound", bound]])
    check_bound(problem, 7, [["times", [0]], ["row", [0]], ["bound", bound]])
    for times in ([2], [1], [2, 0], [0, 0], [7]):
        with pytest.raises(NotProved):
            check_bound(problem, 7, [["times", times], ["row", [0]], ["bound", bound]])
