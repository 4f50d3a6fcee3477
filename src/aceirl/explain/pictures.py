"""One run in pictures: curves and maps, and a page that holds them all."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from aceirl.explain.learned import Learned

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from aceirl.envs import Layout

MOST_LISTED = 12  # states, where they have no place on paper


def figures(found: Learned) -> dict[str, Figure]:
    """The pictures of a run by name: maps first, where states have a place, then curves."""
    return {**_maps(found), **_curves(found)}


def _curves(found: Learned) -> dict[str, Figure]:
    """What is promised and, where the truth is known, what is lost, over samples."""
    from aceirl.explain import plots

    settings, records = found.turn.settings, found.records
    samples, asked = [record.samples for record in records], settings.certify
    promised = [record.certificates[asked.name] if asked else record.bound for record in records]
    epsilon = settings.target(found.turn.counts.shape[0]).epsilon
    # The scale is logarithmic: what is certain altogether is drawn far below what was asked.
    figures = {"bound": plots.bound_curve(samples, np.maximum(promised, epsilon / 100), epsilon)}
    if measured := [(record.samples, record.regret) for record in records if record.regret is not None]:
        when, regret = zip(*measured, strict=True)
        figures["learning"] = plots.learning_curve(when, regret, settings.until_regret)
    return figures


def _maps(found: Learned) -> dict[str, Figure]:
    """Reward, visits, policy and importance on a map; where states have no place, of some states as bars."""
    from aceirl.explain import maps

    drawing = found.layout
    if drawing is None:
        return _lists(found)
    turn, answered = found.turn, found.answered
    return {
        "reward": _reward(found, drawing),
        "visits": maps.visits(drawing, found.visits),
        "policy": maps.policy(drawing, np.eye(drawing.n_actions)[turn.policy], answered),
        "why-here": maps.importance(drawing, found.importance, answered.any(axis=0)),
    }


def _lists(found: Learned) -> dict[str, Figure]:
    """The states that pay most or cost most, those met most often and what is done there, and whose answers matter."""
    from aceirl.explain import plots

    often, acted = found.visits.sum(axis=(0, 2)), found.turn.counts.visited.pooled.sum(axis=1)
    most, acting = ([int(s) for s in np.argsort(-n, kind="stable")[:MOST_LISTED] if n[s]] for n in (often, acted))
    share = often / max(1, often.sum())
    doing = [_doing(found, s) for s in acting]
    listed = {
        "reward": _listed_reward(found),
        "visits": plots.bars([found.names[s] for s in most], share[most], "Visits", "the states met most often", ".1%"),
        "policy": plots.bars(doing, share[acting], "Policy", "what is done in the states met most often", ".1%"),
    }
    if important := found.most_important(MOST_LISTED):
        answers = [_doing(found, s) for s in important]
        note = "the answers that mattered: what a guess instead would cost, as a share of it all"
        listed["why-here"] = plots.bars(answers, found.importance[important], "Why here", note, ".1%")
    return listed


def _doing(found: Learned, state: int) -> str:
    """A state with what the policy does there when it first is there."""
    met = found.turn.counts.visits[:, state].any(axis=1)
    action = int(found.turn.policy[int(met.argmax()), state])
    return f"{found.names[state]}: {_action(found, action)}"


def _action(found: Learned, action: int) -> str:
    return found.actions[action] if found.actions else f"action {action}"


def _listed_reward(found: Learned) -> Figure:
    """What is paid, for each action if they differ, in the states that were met; the largest amounts of either sign."""
    from aceirl.explain import plots

    told, table = found.turn.explanation, found.turn.belief.recovered.reward
    paid, note = table.mean(axis=0), "mean over steps"
    if told is not None and not told.repeats_answers:
        paid, note = told.paid + np.where(told.ends, told.step_cost, 0.0)[:, None], "what each place pays"
        note += f"; each step costs {told.step_cost:g} until the end" if told.step_cost else ""
    met = np.flatnonzero(found.visits.any(axis=(0, 2)))
    paid = paid[met]
    if np.ptp(paid, axis=1).max(initial=0.0) <= 1e-9 * np.abs(paid).max(initial=0.0):
        names, values = [found.names[s] for s in met], paid[:, 0]
    else:
        names = [f"{found.names[s]}: {_action(found, a)}" for s in met for a in range(paid.shape[1])]
        values = paid.ravel()
    largest = np.argsort(-np.abs(values), kind="stable")[:MOST_LISTED]
    largest = largest[values[largest] != 0] if values.any() else largest
    largest = largest[np.argsort(-values[largest], kind="stable")]
    return plots.bars([names[k] for k in largest], values[largest], "Reward", f"{note}; the largest")


def _reward(found: Learned, drawing: Layout) -> Figure:
    """What the reward pays where it explains the answers; else the table, as it is."""
    from aceirl.explain import maps

    turn, visited = found.turn, np.asarray(found.visits.any(axis=(0, 2)))
    if turn.explanation is None or turn.alternatives is None:
        return maps.reward(drawing, turn.belief.recovered.reward, visited)
    told, undetermined = turn.explanation, np.zeros_like(visited)
    undetermined[[s for s in turn.alternatives.undetermined if s not in told.goals]] = True
    # With a step cost, each step after the end is worth what each step before it costs.
    paid = told.paid + np.where(told.ends, told.step_cost, 0.0)[:, None]
    return maps.explained(drawing, paid, undetermined, told.step_cost)
