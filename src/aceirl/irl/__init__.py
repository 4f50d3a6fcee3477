"""From what is known to a reward: one algorithm a file, any callable of the same form will do."""

from aceirl.irl.feasible_point import FeasiblePoint, reproducing_answers
from aceirl.irl.max_causal_entropy import MaxCausalEntropy
from aceirl.irl.max_margin import MaxMargin
from aceirl.irl.posterior_mean import PosteriorMean
from aceirl.irl.sparse_likelihood import SparseLikelihood
from aceirl.rewards import InverseReinforcement

ALGORITHMS: dict[str, type[InverseReinforcement]] = {
    "feasible-point": FeasiblePoint,
    "max-causal-entropy": MaxCausalEntropy,
    "max-margin": MaxMargin,
    "posterior-mean": PosteriorMean,
    "sparse-likelihood": SparseLikelihood,
}
"""The algorithms by name, as `--irl` takes them."""

__all__ = [
    "ALGORITHMS",
    "FeasiblePoint",
    "MaxCausalEntropy",
    "MaxMargin",
    "PosteriorMean",
    "SparseLikelihood",
    "reproducing_answers",
]
