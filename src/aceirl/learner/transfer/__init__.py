"""Taking a recovered reward to another process: what to do there, what it loses, and what that depends on."""

from aceirl.learner.transfer.planning import LOSSES, Transfer, best_actions, carried_reward, same_states, transfer
from aceirl.learner.transfer.targets import (
    KnownProcess,
    named_process,
    process_of_env,
    process_of_file,
    process_of_source,
)

__all__ = [
    "LOSSES",
    "KnownProcess",
    "Transfer",
    "best_actions",
    "carried_reward",
    "named_process",
    "process_of_env",
    "process_of_file",
    "process_of_source",
    "same_states",
    "transfer",
]
