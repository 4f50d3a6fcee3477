"""What the paper printed: Table 1, samples until the regret is below 0.4, over 50 seeds."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Published:
    """A printed mean with its standard error; `bold` marks the best without a generative model."""

    mean: int
    error: int
    bold: bool = False


# By scenario, then strategy. The paper prints `uniform` and `random` once for all N_E; they stand at the smallest.
TABLE1: dict[str, dict[str, Published]] = {
    "four-paths-released-50": {
        "uniform": Published(1900, 71),
        "travel": Published(1560, 76),
        "random": Published(17840, 1886),
        "greedy": Published(24180, 1747),
        "ace": Published(10780, 1369, bold=True),
    },
    "four-paths-released-100": {
        "travel": Published(2000, 0),
        "greedy": Published(32760, 2172),
        "ace": Published(14080, 1603),
    },
    "four-paths-released-200": {
        "travel": Published(4000, 0),
        "greedy": Published(52000, 4057),
        "ace": Published(16160, 2033),
    },
    "double-chain-50": {
        "uniform": Published(1980, 66),
        "travel": Published(1120, 46),
        "random": Published(23640, 2195),
        "greedy": Published(16240, 842),
        "ace": Published(11580, 870, bold=True),
    },
    "double-chain-100": {
        "travel": Published(2000, 0),
        "greedy": Published(22200, 1329),
        "ace": Published(15440, 1031),
    },
    "double-chain-200": {
        "travel": Published(4000, 0),
        "greedy": Published(37200, 1664),
        "ace": Published(20400, 1629),
    },
    "random-mdp-released-1": {
        "uniform": Published(22, 1),
        "travel": Published(27, 1),
        "random": Published(22, 1, bold=True),
        "greedy": Published(23, 1),
        "ace": Published(21, 1, bold=True),
    },
    "chain-1": {
        "uniform": Published(78, 2),
        "travel": Published(76, 4),
        "random": Published(161, 8),
        "greedy": Published(153, 8),
        "ace": Published(142, 9, bold=True),
    },
    "gridworld-released-1": {
        "uniform": Published(43, 2),
        "travel": Published(35, 2),
        "random": Published(45, 2, bold=True),
        "greedy": Published(46, 3, bold=True),
        "ace": Published(48, 2, bold=True),
    },
}
