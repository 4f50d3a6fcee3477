"""Data that others have collected: what each set is, whose, under which licence, and what it does not tell."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path

import numpy as np

from aceirl.data.arrays import FloatArray
from aceirl.errors import InputError, unknown_name


@dataclass(frozen=True)
class DataSet:
    """A set of data. `files` are shipped with this package; another `package` brings the others."""

    name: str
    title: str
    contents: str
    source: str
    licence: str
    not_told: str
    files: tuple[str, ...] = ()
    package: str | None = None

    @property
    def here(self) -> bool:
        """Whether it can be used now."""
        return self.package is None or find_spec(self.package.replace("-", "_")) is not None

    def path(self, name: str) -> Path:
        """Where a file of it lies."""
        if name not in self.files:
            raise unknown_name(f"file of {self.name}", name, self.files)
        if self.package is None:
            return Path(str(files("aceirl.data") / "sets" / self.name / name))
        found = find_spec(self.package.replace("-", "_"))
        if found is None or not found.submodule_search_locations:
            raise InputError(f"{self.name} comes with a package of its own: pip install {self.package}")
        return Path(found.submodule_search_locations[0]) / name


SETS = {
    one.name: one
    for one in (
        DataSet(
            name="rust-bus",
            title="Engine replacements of 37 buses (Rust 1987, group 4)",
            contents="group4.csv: 4,329 rows; bus, month (0 to 116), bin (of 5,000 miles since the last replacement), "
            "odometer, usage (bins driven in the month, empty in a bus's first), replaced",
            source="Rust (1987), Econometrica 55(5); the form of OpenSourceEconomics/ruspy",
            licence="public data; the form is under the MIT licence",
            not_told="whether Zurcher looks ahead (discounts from 0 to 0.9999 differ by less than two in "
            "log-likelihood); what an engine costs in dollars (parameters are in units of the taste shocks); whether "
            "costs are linear in mileage (33 replacements are too few); what other superintendents would do",
            files=("group4.csv", "LICENSE.md"),
        ),
        DataSet(
            name="careers",
            title="Career decisions of 1,373 young men (Keane and Wolpin 1997)",
            contents="decisions.csv.gz: 12,359 rows; man, age (16 to 26), schooling (years), last and choice (school, "
            "home, white-collar, blue-collar, military), wage (dollars of 1987 a year, empty where none is known)",
            source="Keane and Wolpin (1997), Journal of Political Economy 105(3), from the National Longitudinal "
            "Survey of Youth 1979; the form of OpenSourceEconomics/respy",
            licence="public data; the form is under the MIT licence",
            not_told="how men differ (those who stay at school may like it more, which looks like a cost of coming "
            "back); what work would have paid those who did not work; what is done after 26, by which the worth of "
            "schooling is judged; whether others than these men, born in the early sixties, choose the same",
            files=("decisions.csv.gz", "LICENSE.md"),
        ),
        DataSet(
            name="icu-sepsis",
            title="Sepsis treatment in intensive care (ICU-Sepsis, from MIMIC-III)",
            contents="envs/assets/dynamics.npz: transitions of 716 states and 25 actions (fluids and vasopressors in "
            "five levels each), the clinicians' policy and the start, estimated from patients' records",
            source="Choudhary, Gupta and Thomas (2024), ICU-Sepsis: A Benchmark MDP Built from Real Medical Data",
            licence="MIT licence, for the package and its data",
            not_told="what any single clinician did: the policy is an average over clinicians and patients; what "
            "clinicians saw beyond the 716 clusters; whether the estimated effects of treatments are causal",
            files=("envs/assets/dynamics.npz",),
            package="icu-sepsis",
        ),
    )
}
"""The data sets by name."""


def data_set(name: str) -> DataSet:
    """The set of that name."""
    if name not in SETS:
        raise unknown_name("data set", name, SETS)
    return SETS[name]


def sepsis_arrays() -> dict[str, FloatArray]:
    """ICU-Sepsis: `transitions [S, A, S]`, `policy [S, A]` of the clinicians, `initial [S]`, `reward [S, A, S]`.

    The last three states are death, survival, and the one after both.
    """
    with np.load(SETS["icu-sepsis"].path("envs/assets/dynamics.npz"), allow_pickle=False) as stored:
        names = {"transitions": "tx_mat", "policy": "expert_policy", "initial": "d_0", "reward": "r_mat"}
        return {name: np.asarray(stored[theirs], dtype=np.float64) for name, theirs in names.items()}
