"""Who competes where: methods, tasks and seeds, and the runs that follow from them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from aceirl.arena.measure import ArenaCell
from aceirl.arena.methods import METHODS, Method, methods_of
from aceirl.arena.tasks import EXPERTS, SCALING, TASKS, Task, tasks_of


@dataclass(frozen=True)
class Entries:
    """Every method in every task, from seeds `0 … seeds-1`."""

    methods: tuple[Method, ...]
    tasks: tuple[Task, ...]
    seeds: int

    @cached_property
    def cells(self) -> list[ArenaCell]:
        """All runs, seed by seed: whatever is finished early says something about every task."""
        return [
            ArenaCell.of(task, method, seed)
            for seed in range(self.seeds)
            for task in self.tasks
            for method in self.methods
        ]

    @property
    def left_out(self) -> list[str]:
        """What there is and does not compete here, a sentence each."""
        methods = [name for name in METHODS if name not in {method.name for method in self.methods}]
        keys = {task.key for task in self.tasks}
        tasks = [name for name in TASKS if name not in keys]
        sizes = [name for name in SCALING if name not in keys]
        erring = [
            f"{name} with the expert {expert}"
            for name, task in TASKS.items()
            for expert in EXPERTS[1:]
            if task.with_expert(expert).key not in keys
        ]
        said = {
            "methods": methods,
            "tasks": tasks,
            "sizes, which `--tasks scaling` adds": sizes,
            "experts": erring,
        }
        return [f"{what}: {', '.join(names)}" for what, names in said.items() if names]


def entries_of(methods: str | None, tasks: str | None, experts: str | None, seeds: int) -> Entries:
    """What the options of the command name; by default every method of the package in every task."""
    chosen = list(METHODS.values()) if methods is None else methods_of(methods)
    return Entries(tuple(chosen), tuple(tasks_of(tasks, experts)), seeds)
