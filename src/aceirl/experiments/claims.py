"""What is claimed of the strategies, as data: which runs are compared, where, and how the effect is put into words."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple

Role = Literal["here", "small", "large"]


class Term(NamedTuple):
    """The runs of a strategy in the scenario that has this role where the claim is tested, added or subtracted."""

    sign: Literal[1, -1]
    scenario: Role
    strategy: str


@dataclass(frozen=True)
class Comparison:
    """One way to test a claim: over the seeds, the sum of the signed terms is positive on average.

    `where` and `effect` are templates: `{here.title}` is a field of the scenario with that role, `{size}` the effect.
    """

    terms: tuple[Term, ...]
    where: str
    effect: str


@dataclass(frozen=True)
class Claim:
    """A statement, and the comparisons it stands or falls with.

    It is tested in every scenario, which is then `here`, or over batch sizes: in every family that has several, whose
    smallest is `small` and whose largest is `large`. `families` restricts it to some. Terms are logarithms of samples
    to the threshold, and the size of the effect is a factor; a `reward_free` claim is about reward-free scenarios, its
    terms are mean regrets over the iterations, and the size of the effect is a difference.
    """

    text: str
    comparisons: tuple[Comparison, ...]
    over: Literal["scenarios", "batch sizes"] = "scenarios"
    families: tuple[str, ...] = ()
    reward_free: bool = False


TABLE1_CLAIMS = (
    Claim(
        "AceIRL needs the fewest samples of all strategies without a generative model",
        tuple(
            Comparison(
                (Term(1, "here", rival), Term(-1, "here", "ace")),
                f"{{here.title}}: against {rival}",
                f"{rival} needs {{size:.2f}}× the samples of ace",
            )
            for rival in ("random", "greedy")
        ),
    ),
    Claim(
        "AceIRL needs fewer samples with smaller batches",
        (
            Comparison(
                (Term(1, "large", "ace"), Term(-1, "small", "ace")),
                "{small.family}: N_E {small.batch} against {large.batch}",
                "N_E = {large.batch} costs ace {size:.2f}× the samples of N_E = {small.batch}",
            ),
        ),
        over="batch sizes",
    ),
    Claim(
        "AceIRL's advantage over random exploration grows as batches get smaller",
        (
            Comparison(
                (
                    Term(1, "small", "random"),
                    Term(-1, "small", "ace"),
                    Term(-1, "large", "random"),
                    Term(1, "large", "ace"),
                ),
                "{small.family}: N_E {small.batch} against {large.batch}",
                "the advantage is {size:.2f}× as large at N_E = {small.batch}",
            ),
        ),
        over="batch sizes",
    ),
    Claim(
        "Large batches hurt AceIRL Greedy",
        (
            Comparison(
                (Term(1, "large", "greedy"), Term(-1, "small", "greedy")),
                "{small.family}: N_E {large.batch} against {small.batch}",
                "N_E = {large.batch} costs greedy {size:.2f}× the samples of N_E = {small.batch}",
            ),
        ),
        over="batch sizes",
    ),
    Claim(
        "Large batches hurt AceIRL Greedy more than AceIRL",
        (
            Comparison(
                (
                    Term(1, "large", "greedy"),
                    Term(-1, "small", "greedy"),
                    Term(-1, "large", "ace"),
                    Term(1, "small", "ace"),
                ),
                "{small.family}: N_E {large.batch} against {small.batch}",
                "greedy loses {size:.2f}× as much as ace",
            ),
        ),
        over="batch sizes",
    ),
    Claim(
        "AceIRL Greedy needs more samples than random exploration on Four Paths",
        (
            Comparison(
                (Term(1, "here", "greedy"), Term(-1, "here", "random")),
                "{here.title}",
                "greedy needs {size:.2f}× the samples of random",
            ),
        ),
        families=("Four Paths",),
    ),
    *(
        Claim(
            f"Not in the paper: {ours} needs fewer samples than AceIRL",
            (
                Comparison(
                    (Term(1, "here", "ace"), Term(-1, "here", ours)),
                    "{here.title}",
                    f"ace needs {{size:.2f}}× the samples of {ours}",
                ),
            ),
        )
        for ours in ("advice", "guided")
    ),
)

REWARD_FREE_CLAIMS = (
    Claim(
        "In batches, Ace-RF explores better than reward-free UCRL",
        (
            Comparison(
                (Term(1, "here", "rf-ucrl"), Term(-1, "here", "ace-rf")),
                "{here.title}",
                "the mean regret is {size:.2f} lower",
            ),
        ),
        reward_free=True,
    ),
)
