"""The rules of Gymnasium's Blackjack as a table: cards are drawn with replacement, so all of it can be added up."""

from __future__ import annotations

from functools import cache

Hand = tuple[int, int]
"""The best sum of a hand, and whether an ace in it counts eleven."""

Observation = tuple[int, int, int]

CARDS = dict.fromkeys(range(1, 10), 1 / 13) | {10: 4 / 13}
STICK, HIT = 0, 1
DEALER_STICKS = 17


def drawn(hand: Hand, card: int) -> Hand:
    """A hand after one more card."""
    total, soft = hand[0] + card, hand[1]
    if card == 1 and total + 10 <= 21:
        return total + 10, 1
    if total > 21 and soft:
        return total - 10, 0
    return total, soft


@cache
def dealt() -> dict[Hand, float]:
    """How likely each hand of two cards is."""
    hands: dict[Hand, float] = {}
    for first, probability in CARDS.items():
        for second, other in CARDS.items():
            hand = drawn(drawn((0, 0), first), second)
            hands[hand] = hands.get(hand, 0.0) + probability * other
    return hands


@cache
def dealer_ends(hand: Hand) -> dict[int, float]:
    """How likely the dealer, now holding this hand, ends with each sum; 0 if it goes bust."""
    if hand[0] >= DEALER_STICKS:
        return {hand[0] if hand[0] <= 21 else 0: 1.0}
    ends: dict[int, float] = {}
    for card, probability in CARDS.items():
        for total, other in dealer_ends(drawn(hand, card)).items():
            ends[total] = ends.get(total, 0.0) + probability * other
    return ends


def blackjack_starts() -> list[tuple[Observation, float]]:
    """How likely each first observation `(sum, dealer's card, usable ace)` is."""
    return [
        ((total, card, soft), probability * shown)
        for (total, soft), probability in dealt().items()
        for card, shown in CARDS.items()
    ]


def blackjack_moves() -> list[tuple[Observation, int, list[tuple[float, Observation, float, bool]]]]:
    """Every observation and action with its outcomes `(probability, next observation, reward, terminated)`."""
    hands = {(total, 0) for total in range(4, 22)} | {(total, 1) for total in range(12, 22)}
    rows = []
    for hand in sorted(hands):
        for card in CARDS:
            here = (hand[0], card, hand[1])
            rows.append((here, STICK, [(1.0, here, _stick_value(hand[0], card), True)]))
            after = [(probability, drawn(hand, new)) for new, probability in CARDS.items()]
            outcomes = [
                (probability, (min(total, 31), card, soft), -1.0 if total > 21 else 0.0, total > 21)
                for probability, (total, soft) in after
            ]
            rows.append((here, HIT, outcomes))
    return rows


def natural_values(*, natural: bool, sab: bool) -> dict[Observation, float]:
    """The mean reward of sticking to a natural: an ace and a ten, so at the first step every soft 21 is one."""
    values = {}
    for card in CARDS:
        tie = CARDS[11 - card] if card in (1, 10) else 0.0
        plain = _stick_value(21, card)
        values[21, card, 1] = 1 - tie if sab else 1.5 * plain if natural else plain
    return values


def _stick_value(total: int, card: int) -> float:
    """The mean reward of sticking against a dealer who shows this card."""
    value = 0.0
    for hidden, probability in CARDS.items():
        for end, other in dealer_ends(drawn(drawn((0, 0), card), hidden)).items():
            value += probability * other * ((total > end) - (total < end))
    return value
