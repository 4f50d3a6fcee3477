"""The paper's experiments as data, and ours beside them: what it printed, what is claimed, and which runs test it."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from aceirl.bench.specs import Contrast, PaperClaim, Published, Scenario, Spec
from aceirl.errors import unknown_name

# The radii of all results on record; they steer the exploration here and promise nothing.
RADII: dict[str, Any] = {"confidence": "kl"}

# The paper's reward: a table of steps, states and actions, inferred anew in every iteration.
PAPER: dict[str, Any] = {**RADII, "irl": "max-causal-entropy", "reward": "any", "infer_after_growth": 0.0}

PAPER_STRATEGIES = ("uniform", "travel", "random", "greedy", "ace")
OUR_STRATEGIES = ("advice", "guided")
TRANSFER_STRATEGIES = ("probe", "guided", "advice", "ace", "random", "uniform")
REWARD_FREE_STRATEGIES = ("uniform", "random", "rf-ucrl", "ace-rf")

# Table 1, samples until the regret is below 0.4 over 50 seeds, in the order of the paper's strategies; bold has a star.
# The paper prints `uniform` and `random` once for all N_E; they stand at the smallest.
PRINTED = """
four-paths-released-50    1900 ± 71   1560 ± 76   17840 ± 1886   24180 ± 1747   10780 ± 1369*
four-paths-released-100       –       2000 ± 0          –        32760 ± 2172   14080 ± 1603
four-paths-released-200       –       4000 ± 0          –        52000 ± 4057   16160 ± 2033
double-chain-50           1980 ± 66   1120 ± 46   23640 ± 2195   16240 ± 842    11580 ± 870*
double-chain-100              –       2000 ± 0          –        22200 ± 1329   15440 ± 1031
double-chain-200              –       4000 ± 0          –        37200 ± 1664   20400 ± 1629
random-mdp-released-1       22 ± 1      27 ± 1       22 ± 1*        23 ± 1         21 ± 1*
chain-1                     78 ± 2      76 ± 4      161 ± 8        153 ± 8        142 ± 9*
gridworld-released-1        43 ± 2      35 ± 2       45 ± 2*        46 ± 3*        48 ± 2*
"""


def _published() -> dict[str, dict[str, Published]]:
    """The printed numbers, by scenario and strategy."""
    table: dict[str, dict[str, Published]] = {}
    for line in PRINTED.strip().splitlines():
        scenario, *entries = line.replace(" ± ", "±").split()
        row = table[scenario] = {}
        for strategy, entry in zip(PAPER_STRATEGIES, entries, strict=True):
            if entry != "–":
                mean, error = entry.rstrip("*").split("±")
                row[strategy] = Published(int(mean), int(error), bold=entry.endswith("*"))
    return table


TABLE1 = _published()

SMALL_AGAINST_LARGE = "{small.family}: N_E {small.batch} against {large.batch}"
LARGE_AGAINST_SMALL = "{small.family}: N_E {large.batch} against {small.batch}"


def _over_batches(text: str, terms: str, where: str, effect: str) -> PaperClaim:
    return PaperClaim(text, (Contrast.read(terms, where, effect),), over="batch sizes")


TABLE1_CLAIMS = (
    PaperClaim(
        "AceIRL needs the fewest samples of all strategies without a generative model",
        tuple(
            Contrast.read(
                f"here {rival} - here ace",
                f"{{here.title}}: against {rival}",
                f"{rival} needs {{size:.2f}}× the samples of ace",
            )
            for rival in ("random", "greedy")
        ),
    ),
    _over_batches(
        "AceIRL needs fewer samples with smaller batches",
        "large ace - small ace",
        SMALL_AGAINST_LARGE,
        "N_E = {large.batch} costs ace {size:.2f}× the samples of N_E = {small.batch}",
    ),
    _over_batches(
        "AceIRL's advantage over random exploration grows as batches get smaller",
        "small random - small ace - large random + large ace",
        SMALL_AGAINST_LARGE,
        "the advantage is {size:.2f}× as large at N_E = {small.batch}",
    ),
    _over_batches(
        "Large batches hurt AceIRL Greedy",
        "large greedy - small greedy",
        LARGE_AGAINST_SMALL,
        "N_E = {large.batch} costs greedy {size:.2f}× the samples of N_E = {small.batch}",
    ),
    _over_batches(
        "Large batches hurt AceIRL Greedy more than AceIRL",
        "large greedy - small greedy - large ace + small ace",
        LARGE_AGAINST_SMALL,
        "greedy loses {size:.2f}× as much as ace",
    ),
    PaperClaim(
        "AceIRL Greedy needs more samples than random exploration on Four Paths",
        (Contrast.read("here greedy - here random", "{here.title}", "greedy needs {size:.2f}× the samples of random"),),
        families=("Four Paths",),
    ),
    *(
        PaperClaim(
            f"Not in the paper: {ours} needs fewer samples than AceIRL",
            (
                Contrast.read(
                    f"here ace - here {ours}", "{here.title}", f"ace needs {{size:.2f}}× the samples of {ours}"
                ),
            ),
        )
        for ours in OUR_STRATEGIES
    ),
)

REWARD_FREE_CLAIMS = (
    PaperClaim(
        "In batches, Ace-RF explores better than reward-free UCRL",
        (Contrast.read("here rf-ucrl - here ace-rf", "{here.title}", "the mean regret is {size:.2f} lower"),),
        reward_free=True,
    ),
)

# Environment, family, batches N_E and budget of samples of the paper's experiments.
PAPER_PROBLEMS = (
    ("four-paths-released", "Four Paths", (50, 100, 200), 100_000),
    ("double-chain", "Double Chain", (50, 100, 200), 100_000),
    ("random-mdp-released", "Random MDPs", (1,), 3_000),
    ("chain", "Chain", (1,), 10_000),
    ("gridworld-released", "Gridworld", (1,), 3_000),
)


def _paper_scenarios(until_regret: float | None, **choices: Any) -> tuple[Scenario, ...]:
    return tuple(
        Scenario(
            name=f"{environment}-{batch}",
            title=f"{family}, N_E = {batch}",
            environment=environment,
            family=family,
            choices={
                **PAPER,
                "episodes_per_iteration": batch,
                "max_samples": budget,
                "until_regret": until_regret,
                # Every step of these problems has transitions of its own; what is seen at one says nothing of another.
                "stationary_dynamics": environment != "random-mdp-released",
                **choices,
            },
        )
        for environment, family, batches, budget in PAPER_PROBLEMS
        for batch in batches
    )


def _reward_free_scenarios(**choices: Any) -> tuple[Scenario, ...]:
    return tuple(
        Scenario(
            name=f"reward-free-{batch}",
            title=f"Double Chain, N_E = {batch}",
            environment="double-chain",
            family="Double Chain",
            choices={
                **PAPER,
                "episodes_per_iteration": batch,
                "max_samples": 20 * 20 * batch,
                "irl": "feasible-point",
                **choices,
            },
            reward_free=True,
        )
        for batch in (200, 1000, 3000, 5000)
    )


# Environment, family, and the samples after which the reward is taken elsewhere.
TRANSFER_PROBLEMS = (
    ("four-paths", "Four Paths", (300, 1_000)),
    ("double-chain", "Double Chain", (300, 1_000)),
    ("chain", "Chain", (300, 1_000)),
    ("gridworld", "Gridworld", (200, 1_000)),
)
SAMPLES_IF_KNOWN = 60


def _transfer_scenarios() -> tuple[Scenario, ...]:
    return tuple(
        Scenario(
            name=f"transfer-{environment}-{samples}",
            title=f"{family}, {samples:,} samples" + (", dynamics known" if samples == SAMPLES_IF_KNOWN else ""),
            environment=environment,
            family=family,
            choices={"max_samples": samples, **RADII},
            transfer="known" if samples == SAMPLES_IF_KNOWN else "estimated",
        )
        for environment, family, budgets in TRANSFER_PROBLEMS
        for samples in (*budgets, SAMPLES_IF_KNOWN)
    )


AS_RELEASED: dict[str, Any] = {"stationary_dynamics": False, "confidence": "hoeffding"}


def _catalogue() -> dict[str, Spec]:
    curves = _paper_scenarios(None)
    specs = [
        Spec(
            name="table1",
            title="Samples until the regret is below 0.4",
            summary="the paper's Table 1: nine scenarios, its five strategies and two of ours",
            scenarios=_paper_scenarios(0.4),
            strategies=PAPER_STRATEGIES + OUR_STRATEGIES,
            published=TABLE1,
            claims=TABLE1_CLAIMS,
        ),
        Spec(
            name="table1-released-style",
            title="Samples until the regret is below 0.4, estimated as in the released code",
            summary="Table 1 with per-step estimates and Hoeffding radii, as the paper's code has them",
            scenarios=_paper_scenarios(0.4, **AS_RELEASED),
            strategies=PAPER_STRATEGIES,
            published=TABLE1,
            claims=TABLE1_CLAIMS,
        ),
        Spec(
            name="figures",
            title="Learning curves",
            summary="the paper's main and appendix figures: regret over samples, to the full budgets",
            scenarios=curves,
            strategies=PAPER_STRATEGIES + OUR_STRATEGIES,
            tabulated=False,
        ),
        Spec(
            name="reward-free",
            title="Reward-free exploration",
            summary="the paper's last figure: how good is planning with the true reward in the learnt process?",
            scenarios=_reward_free_scenarios(),
            strategies=REWARD_FREE_STRATEGIES,
            claims=REWARD_FREE_CLAIMS,
        ),
        Spec(
            name="reward-free-released-style",
            title="Reward-free exploration, estimated as in the released code",
            summary="the same with per-step estimates and Hoeffding radii",
            scenarios=_reward_free_scenarios(**AS_RELEASED),
            strategies=REWARD_FREE_STRATEGIES,
            claims=REWARD_FREE_CLAIMS,
        ),
        Spec(
            name="thresholds",
            title="Samples to other thresholds",
            summary="is 0.4 special? samples to regrets 0.1 to 0.5, read off the learning curves",
            scenarios=curves,
            strategies=PAPER_STRATEGIES + OUR_STRATEGIES,
            thresholds=(0.1, 0.2, 0.3, 0.4, 0.5),
        ),
        Spec(
            name="transfer",
            title="The reward, taken elsewhere",
            summary="not in the paper: what planning with the recovered reward loses from other starts, with other "
            "dynamics, with the obstacle moved",
            scenarios=_transfer_scenarios(),
            strategies=TRANSFER_STRATEGIES,
        ),
    ]
    return {spec.name: spec for spec in specs}


SPECS: Mapping[str, Spec] = MappingProxyType(_catalogue())


def spec(name: str) -> Spec:
    """The experiment of that name."""
    if name not in SPECS:
        raise unknown_name("experiment", name, SPECS)
    return SPECS[name]
