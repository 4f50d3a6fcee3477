"""What may be promised about what was recovered, how accurately, under which assumptions, and why; a kind per file."""

from aceirl.certificates.base import Certificate, CertificateKind, amount
from aceirl.certificates.budget import Budget, given_up
from aceirl.certificates.criterion import Criterion
from aceirl.certificates.dynamics import Dynamics
from aceirl.certificates.e_process import BatchOutcome, Wager
from aceirl.certificates.expectations import ExpectationCertificate, certify_expectations, feature_means
from aceirl.certificates.forecast import possible_losses, wagered_losses
from aceirl.certificates.goal import Goal, GoalCertificate
from aceirl.certificates.policy import PolicyCertificate
from aceirl.certificates.reward import Reward
from aceirl.certificates.reward_set import RewardSet
from aceirl.certificates.transfer import transfer_certificate, transfer_policy

KINDS: dict[str, type[CertificateKind]] = {
    kind.name: kind for kind in (PolicyCertificate, Criterion, Reward, RewardSet, Dynamics, Goal)
}
"""The kinds a run can stop on. One more, `transfer`, needs a target: see `transfer_certificate`."""

__all__ = [
    "KINDS",
    "BatchOutcome",
    "Budget",
    "Certificate",
    "CertificateKind",
    "ExpectationCertificate",
    "Goal",
    "GoalCertificate",
    "Wager",
    "amount",
    "certify_expectations",
    "feature_means",
    "given_up",
    "possible_losses",
    "transfer_certificate",
    "transfer_policy",
    "wagered_losses",
]
