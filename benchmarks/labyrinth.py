"""Mice in a labyrinth (Rosenberg et al. 2021): what the water port is worth, thirsty and not, and held-out decisions.

    python benchmarks/labyrinth.py --data FOLDER [--out FILE.json] [--docs]

The data are not shipped. FOLDER is `data/mouse_data` of the repository 97aditi/dynamic_irl: trajectories of 22 or 14
steps through the 127 nodes of a binary maze, and the split for which others have published held-out bits per decision.
The files are pickles, so only numbers are read from them.

The state is the node and whether the water port was visited before: thirst is quenched once. Eight features, and a
discount of 0.9.
"""

from __future__ import annotations

import argparse
import pickle
from pathlib import Path
from typing import Any

import _frame as frame
import numpy as np

from aceirl import ActiveIRL
from aceirl.irl.structural import CHANCE, COPYING, HABIT, RecordedChoices, StructuralModel, habits
from aceirl.models.tabular.mdp import FloatArray, Transitions
from aceirl.models.tabular.panels import given_dynamics

NODES, WATER, LEFT, RIGHT, BACK, STAY = 127, 100, 0, 1, 2, 3
PUBLISHED = {"maximum entropy": -1.767, "deep maximum entropy": -1.708, "dynamic IRL": -0.827}
"""Bits per decision of thirsty mice left out, as the authors of dynamic IRL report them for this split."""


class OnlyNumbers(pickle.Unpickler):
    """Reads arrays of numbers, lists and dictionaries, and nothing that could run."""

    def find_class(self, module: str, name: str) -> Any:
        """The few names that arrays need."""
        if module.partition(".")[0] == "numpy" and name in (
            "_reconstruct",
            "ndarray",
            "dtype",
            "scalar",
            "_frombuffer",
        ):
            return super().find_class(module, name)
        raise pickle.UnpicklingError(f"the file asks for {module}.{name}")


def maze() -> Transitions:
    """Left, right, back and stay in a binary tree; twice, before and after the water port was visited."""
    dense = np.zeros((2 * NODES, 4, 2 * NODES))
    for node in range(NODES):
        inner = node < NODES // 2
        moves = {LEFT: 2 * node + 1 if inner else node, RIGHT: 2 * node + 2 if inner else node}
        moves |= {BACK: (node - 1) // 2 if node else 0, STAY: node}
        for action, after in moves.items():
            for seen in (0, 1):
                dense[node + NODES * seen, action, after + NODES * (seen or after == WATER)] = 1.0
    return given_dynamics(dense).transitions


def features(transitions: Transitions) -> dict[str, FloatArray]:
    """`[S, A]` each, by name."""
    state, action = np.arange(2 * NODES)[:, None], np.arange(4)[None, :]
    node, seen = state % NODES, state >= NODES
    after = transitions.dense().argmax(axis=2) % NODES
    found = {
        "first arrival at the water port": (after == WATER) & (node != WATER) & ~seen,
        "staying at the water port": (node == WATER) & (action == STAY),
        "coming home after it": (after == 0) & (node != 0) & seen,
        "coming home without it": (after == 0) & (node != 0) & ~seen,
        "staying home": (node == 0) & ((action == STAY) | (action == BACK)),
        "another end of the maze": (after >= NODES // 2) & (after != WATER),
        "moving": after != node,
        "right": np.broadcast_to(action == RIGHT, after.shape),
    }
    return {name: values.astype(np.float64) for name, values in found.items()}


def trajectories_of(folder: Path, group: str) -> list[dict[str, Any]]:
    """The nodes and actions of each trajectory."""
    with (folder / f"water_{group}_mice_trajs.pickle").open("rb") as file:
        found: list[dict[str, Any]] = OnlyNumbers(file).load()
    return found


def recorded(folder: Path, group: str) -> tuple[RecordedChoices, FloatArray, FloatArray]:
    """The choices of a group, and the weights `[I]` of the trajectories to learn from and of those left out."""
    trajectories = trajectories_of(folder, group)
    parts = []
    for number_, one in enumerate(trajectories):
        action = np.asarray(one["actions"], dtype=np.int64)
        node = np.asarray(one["states"], dtype=np.int64)[: len(action)]
        seen = np.maximum.accumulate(node == WATER)
        parts.append((np.full(len(action), number_), node + NODES * seen, action))
    individual, state, action = (np.concatenate(column) for column in zip(*parts, strict=True))
    weights = []
    for side in ("train", "val"):
        weight = np.zeros(len(trajectories))
        weight[np.load(folder / f"{group}_{side}_indices.npy").astype(np.int64)] = 1.0
        weights.append(weight)
    choices = RecordedChoices(individual, state, action, np.ones(len(action)), len(trajectories))
    return choices, weights[0], weights[1]


def wish(folder: Path, group: str) -> tuple[str, float, str, str]:
    """What is said of the wish of a group, from a map of 127 places and nothing else; and what it rests on.

    That are the nats by which wishes predict the choices better than the best habit, the share of choices that the best
    wish leaves unexplained, and that wish, which is not claimed unless it is the sentence.
    """
    pairs = [zip(one["states"], one["actions"], strict=False) for one in trajectories_of(folder, group)]
    found = ActiveIRL().infer([[(int(node), int(action)) for node, action in episode] for episode in pairs])
    told = found.turn.wish
    nodes = {number_: name.removeprefix("the observation ") for number_, name in enumerate(found.names)}
    words = {str(WATER): "the water port", "0": "home"}
    first, later = (
        " and ".join(words.get(nodes[place], f"node {nodes[place]}") for place, worth in places if worth > 0)
        for places in (told.best.places, told.best.later)
    )
    best = first + (f", from step {told.best.change} on {later}" if told.best.change is not None else "")
    return found.wish.sentence, told.evidence, f"{told.unexplained / told.answers:.1%}", best


def measure(options: argparse.Namespace, report: frame.Report) -> None:
    """Parameters with intervals, then held-out bits."""
    transitions = maze()
    named = features(transitions)
    model = StructuralModel(transitions, np.stack(list(named.values()), axis=2), tuple(named), 0.9)
    groups = {"thirsty": "restricted", "not thirsty": "unrestricted"}
    data = {words: recorded(options.data, name) for words, name in groups.items()}
    found = {words: model.fit(choices, seen) for words, (choices, seen, _) in data.items()}
    page = "data.md"
    table = report.table(
        "labyrinth", frame.Column("reward of"), *(frame.number(words, "{}") for words in groups), page=page
    )
    for k, name in enumerate(named):
        cells = []
        for one in found.values():
            low, high = one.intervals(0.9)[k]
            shown = f"{one.parameters[k]:.1f} ({low:.1f} to {high:.1f})"
            cells.append("never chosen" if one.unbounded[k] else shown)
        table.add(name, *cells)
    said = report.table(
        "labyrinth-wish",
        frame.Column("mice"),
        frame.number("nats beyond the best habit", "{:.0f}"),
        frame.number("unexplained", "{}"),
        frame.Column("best wish"),
        frame.Column("what is said"),
        page=page,
    )
    for words, name in groups.items():
        sentence, *rest = wish(options.data, name)
        said.add(words, *rest, sentence)
    bits = report.table(
        "labyrinth-bits",
        frame.Column("left out, bits per decision"),
        *(frame.number(words, "{:.3f}") for words in groups),
        page=page,
    )
    rows: dict[str, list[float | None]] = {}
    for words, (choices, seen, left_out) in data.items():
        left = choices.table(model.problem.shape, left_out)
        predicted = {"this reward, eight parameters": found[words].policy}
        plain = habits(choices.table(model.problem.shape, seen), model.problem.allowed, 1.0)
        predicted |= {"copying: a table of counts per state": plain[COPYING]}
        predicted |= {"frequency per action": plain[HABIT], "chance": plain[CHANCE]}
        for name, policy in predicted.items():
            value = float((left[left > 0] * np.log2(policy[left > 0])).sum() / left.sum())
            rows.setdefault(name, []).append(value)
    for name, value in PUBLISHED.items():
        rows[f"{name}, published"] = [value, None]
    for name, cells_ in rows.items():
        bits.add(name, *cells_)


if __name__ == "__main__":
    frame.start(
        measure, __doc__, frame.argument("--data", type=Path, required=True, help="data/mouse_data of dynamic_irl")
    )
