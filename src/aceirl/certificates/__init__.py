"""What may be promised about what was recovered, for which accuracy, under which assumptions, and why."""

from aceirl.certificates.betting import Forecast, Wealth, forecast, place
from aceirl.certificates.kinds import (
    KINDS,
    Certificate,
    Findings,
    Terms,
    amount,
    certificate,
    next_first_action,
    policy_value,
    reached,
    transfer_certificate,
    transfer_policy,
    values,
)

__all__ = [
    "KINDS",
    "Certificate",
    "Findings",
    "Forecast",
    "Terms",
    "Wealth",
    "amount",
    "certificate",
    "forecast",
    "next_first_action",
    "place",
    "policy_value",
    "reached",
    "transfer_certificate",
    "transfer_policy",
    "values",
]
