"""Features of the observation that a step led to, over named coordinates, and rewards that are linear in them.

`r(o, a, o') = Σ θ_k·f_k(o')`: per coordinate five hats (piecewise linear, between the values seen) and a square about
zero, one feature per kind of end, and one for the step itself. A coordinate is a number of the observation, or an angle
given by its cosine and sine, which is found because the squares of two neighbouring numbers always sum to one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

import numpy as np
import scipy

from aceirl.data.arrays import BoolArray, FloatArray, IntArray
from aceirl.errors import InputError

HATS = 5
"""How many hats a coordinate has."""

LARGEST_SQUARE = 4.0
"""Squares are cut here; one is two standard deviations away from zero."""

FEWEST_ENDS = 3
"""A kind of end has been seen at least so often."""

DENSER, LEAST_SPREAD = 5.0, 0.05
"""Ends that lie so many times closer to each other than the others do are a kind of their own; nothing counts as closer
than this, in standard deviations of what was observed."""

Kind = Literal["line", "circle", "flag"]


@dataclass(frozen=True)
class Coordinate:
    """A named number of the observation. `parts` are the entries it is read from: one, or cosine and sine.

    It was mostly between `low` and `high`; `scale` is what its square is measured in. A flag is 0 or 1, nothing else.
    """

    name: str
    kind: Kind
    parts: tuple[int, ...]
    low: float
    high: float
    scale: float

    @property
    def knots(self) -> FloatArray:
        """Where the hats have their tops: `[HATS]`, or one for a flag."""
        if self.kind == "flag":
            return np.ones(1)
        if self.kind == "circle":
            return np.asarray(2 * np.pi / HATS * (np.arange(HATS) - HATS // 2), dtype=np.float64)
        return np.asarray(self.low + (self.high - self.low) * np.arange(HATS) / (HATS - 1), dtype=np.float64)

    @property
    def n_features(self) -> int:
        """Hats and a square, or the flag itself."""
        return 1 if self.kind == "flag" else HATS + 1

    def features(self, values: FloatArray) -> FloatArray:
        """`[n, n_features]` of values `[n]`; each hat and the square are between 0 and 1."""
        if self.kind == "flag":
            return np.clip(values, 0.0, 1.0)[:, None]
        knots = self.knots
        width = knots[1] - knots[0]
        away = (values if self.kind == "circle" else np.clip(values, self.low, self.high))[:, None] - knots
        if self.kind == "circle":
            away = wrapped(away)
        hats = np.maximum(0.0, 1.0 - np.abs(away) / width)
        square = np.minimum((values / self.scale) ** 2, LARGEST_SQUARE) / LARGEST_SQUARE
        return np.concatenate((hats, square[:, None]), axis=1)


def wrapped(angles: FloatArray) -> FloatArray:
    """The same angles from -π to π."""
    return np.asarray((angles + np.pi) % (2 * np.pi) - np.pi)


@dataclass(frozen=True)
class Coordinates:
    """The coordinates of observations `[n, size]`; their values are `[n, c]`, angles from -π to π."""

    parts: tuple[Coordinate, ...]
    size: int

    @classmethod
    def of(cls, observations: FloatArray, names: Sequence[str] = ()) -> Coordinates:
        """The coordinates of observations `[n, d]` that were seen, with the names of their entries where given."""
        seen = np.asarray(observations, dtype=np.float64)
        if seen.ndim != 2 or not len(seen):
            raise InputError(f"observations have the shape {seen.shape}; they must be vectors, and at least one")
        if not np.isfinite(seen).all():
            row, column = np.argwhere(~np.isfinite(seen))[0]
            raise InputError(f"entry {column} of observation {row} is {seen[row, column]}; it must be a finite number")
        size = seen.shape[1]
        if names and len(names) != size:
            raise InputError(f"{len(names)} names for observations of {size} entries")
        called = list(names) if names else [f"entry {number}" for number in range(1, size + 1)]
        parts: list[Coordinate] = []
        entry = 0
        while entry < size:
            if entry + 1 < size and _is_angle(seen[:, entry : entry + 2]):
                name = called[entry].removeprefix("cosine of ")
                name = name if name != called[entry] else f"angle of {called[entry]} and {called[entry + 1]}"
                parts.append(Coordinate(name, "circle", (entry, entry + 1), -np.pi, np.pi, np.pi / 2))
                entry += 2
                continue
            parts.append(_number(called[entry], entry, seen[:, entry]))
            entry += 1
        return cls(tuple(parts), size)

    def __len__(self) -> int:
        return len(self.parts)

    @property
    def names(self) -> tuple[str, ...]:
        """What the coordinates are called."""
        return tuple(part.name for part in self.parts)

    @property
    def circles(self) -> BoolArray:
        """`[c]`: which coordinates are angles."""
        return np.array([part.kind == "circle" for part in self.parts])

    def encode(self, observations: FloatArray) -> FloatArray:
        """`[n, c]` of observations `[n, size]`."""
        seen = np.asarray(observations, dtype=np.float64)
        values = np.empty((len(seen), len(self.parts)))
        for place, part in enumerate(self.parts):
            cosine_or_value = seen[:, part.parts[0]]
            values[:, place] = (
                np.arctan2(seen[:, part.parts[1]], cosine_or_value) if part.kind == "circle" else cosine_or_value
            )
        return values

    def decode(self, values: FloatArray) -> FloatArray:
        """The observations `[n, size]` with those coordinates `[n, c]`."""
        observations = np.empty((len(values), self.size))
        for place, part in enumerate(self.parts):
            if part.kind == "circle":
                observations[:, part.parts[0]] = np.cos(values[:, place])
                observations[:, part.parts[1]] = np.sin(values[:, place])
            else:
                observations[:, part.parts[0]] = values[:, place]
        return observations

    def difference(self, values: FloatArray, others: FloatArray) -> FloatArray:
        """`[n, c]`: values less others, angles the short way round."""
        apart = np.asarray(values - others)
        circles = self.circles
        apart[:, circles] = wrapped(apart[:, circles])
        return apart


def _is_angle(pair: FloatArray) -> bool:
    """Whether two entries `[n, 2]` are the cosine and sine of an angle that moves."""
    return bool((np.abs((pair**2).sum(axis=1) - 1.0) < 1e-3).all() and pair.std(axis=0).max() > 1e-3)


def _number(name: str, entry: int, seen: FloatArray) -> Coordinate:
    if np.isin(seen, (0.0, 1.0)).all():
        return Coordinate(name, "flag", (entry,), 0.0, 1.0, 1.0)
    low, high = (float(end) for end in np.quantile(seen, (0.001, 0.999)))
    if high - low < 1e-9:
        low, high = low - 0.5, high + 0.5
    scale = abs(float(seen.mean())) + 2 * float(seen.std())
    return Coordinate(name, "line", (entry,), low, high, max(scale, 1e-9))


@dataclass(frozen=True)
class Border:
    """Episodes end where a coordinate passes a border, upwards if `side` is 1, downwards if it is -1."""

    coordinate: int
    side: int
    at: float

    def excess(self, values: FloatArray) -> FloatArray:
        """`[n]`: how far values `[n, c]` are beyond the border."""
        return np.asarray(self.side * (values[:, self.coordinate] - self.at))


@dataclass(frozen=True, eq=False)
class EndCluster:
    """Ends at no border: about a `centre [size]` of observations, mostly within its `spread [size]`, told from other
    arrivals by `weights` of squares and products. `share` of the ends at no border are of this kind."""

    centre: FloatArray
    spread: FloatArray
    share: float
    weights: FloatArray

    @classmethod
    def of(cls, points: FloatArray, share: float, inside: FloatArray) -> EndCluster:
        """Of comparable ends `[m, size]`, where episodes went on `inside [n, size]`."""
        centre, spread = points.mean(axis=0), np.maximum(points.std(axis=0), LEAST_SPREAD)
        return cls(centre, spread, share, _boundary(inside, points))

    def likely(self, usual: FloatArray) -> FloatArray:
        """`[n]`: how likely comparable ends `[n, size]` are of this kind: a log density, up to a constant."""
        return np.asarray(np.log(self.share) + _log_density(usual, self.centre, self.spread))


@dataclass(frozen=True, eq=False)
class Ends:
    """The kinds of ends of a simulator: first borders of single coordinates, then clusters of what is left.

    Observations are made comparable by their mean and standard deviation, `shift` and `scale [size]`.
    """

    coordinates: Coordinates
    borders: tuple[Border, ...]
    clusters: tuple[EndCluster, ...]
    shift: FloatArray
    scale: FloatArray

    @classmethod
    def of(cls, coordinates: Coordinates, inside: FloatArray, ends: FloatArray) -> Ends:
        """The kinds among observed `ends [m, size]`, where episodes went on at the observations `inside [n, size]`.

        An end at a border lies beyond everything that was seen inside, in one coordinate; it belongs to the one in
        which it lies farthest out, measured by the range inside.
        """
        shift, scale = inside.mean(axis=0), inside.std(axis=0) + 1e-9
        within, beyond = coordinates.encode(inside), coordinates.encode(ends) if len(ends) else np.empty((0, 0))
        lines = [place for place, part in enumerate(coordinates.parts) if part.kind == "line"]
        borders: list[Border] = []
        left = np.ones(len(ends), dtype=bool)
        if len(ends) and lines:
            least, most = within.min(axis=0), within.max(axis=0)
            spread = np.maximum(most - least, 1e-9)
            excess = np.stack([(least - beyond) / spread, (beyond - most) / spread], axis=2)[:, lines]  # [m, lines, 2]
            found = excess.reshape(len(ends), -1).argmax(axis=1)
            outside = excess.reshape(len(ends), -1).max(axis=1) > 0
            for number in np.unique(found[outside]):
                here = outside & (found == number)
                if here.sum() < FEWEST_ENDS:
                    continue
                place, side = lines[number // 2], (-1, 1)[number % 2]
                inner = most[place] if side > 0 else least[place]
                outer = beyond[here, place].min() if side > 0 else beyond[here, place].max()
                borders.append(Border(place, side, float((inner + outer) / 2)))
                left &= ~here
        clusters = _clusters((ends[left] - shift) / scale) if left.sum() >= FEWEST_ENDS else []
        return cls(
            coordinates,
            tuple(borders),
            tuple(
                EndCluster.of(one, len(one) / left.sum(), (inside - shift) / scale)
                for one in sorted(clusters, key=lambda one: tuple(one.mean(axis=0)))
            ),
            shift,
            scale,
        )

    def with_borders_of(self, other: Ends, inside: FloatArray) -> Ends:
        """The same and the borders of another simulator, where no end was seen yet at such a border, and episodes went
        on at none of the observations `inside [n, size]` beyond it."""
        within, parts = self.coordinates.encode(inside), self.coordinates.parts
        seen = {(one.coordinate, one.side) for one in self.borders}
        more = [
            one
            for one in other.borders
            if (one.coordinate, one.side) not in seen
            and len(parts) == len(other.coordinates)
            and parts[one.coordinate].kind == "line"
            and not (one.excess(within) > 0).any()
        ]
        return replace(self, borders=(*self.borders, *more))

    def __len__(self) -> int:
        return len(self.borders) + len(self.clusters)

    @property
    def names(self) -> tuple[str, ...]:
        """The kinds in words."""
        said = [
            f"the end with {self.coordinates.parts[one.coordinate].name} {'above' if one.side > 0 else 'below'} "
            f"{one.at:.2g}"
            for one in self.borders
        ]
        likes = sorted(self.clusters, key=lambda one: float(np.log(one.spread).sum()))[:-1]  # the widest: what is left
        other = "any other end" if said or likes else "the end"
        return (*said, *(f"an end like {self._where(one)}" if one in likes else other for one in self.clusters))

    def _where(self, cluster: EndCluster) -> str:
        """The coordinates that hardly differ among the ends of a cluster."""
        values = self.coordinates.encode((cluster.centre * self.scale + self.shift)[None])[0]
        parts = self.coordinates.parts
        lines = [place for place, part in enumerate(parts) if part.kind != "flag"] or list(range(len(parts)))
        alike = sorted(lines, key=lambda place: max(float(cluster.spread[entry]) for entry in parts[place].parts))[:2]
        return ", ".join(f"{parts[place].name} {values[place] + 0.0:.2f}" for place in sorted(alike))

    def kind(self, observations: FloatArray) -> IntArray:
        """`[n]`: the kind of each end at these observations `[n, size]`; -1 if no kind is known."""
        if not len(self):
            return np.full(len(observations), -1)
        values = self.coordinates.encode(observations)
        away = np.full((len(observations), len(self)), np.inf)
        for number, border in enumerate(self.borders):
            away[:, number] = -border.excess(values) / self._spread(border)
        beyond = (away < 0).any(axis=1)
        if self.clusters:
            usual = (observations - self.shift) / self.scale
            likely = np.stack([one.likely(usual) for one in self.clusters], axis=1)
            away[~beyond, len(self.borders) :] = likely.min(initial=0.0) - likely[~beyond] - 1.0
        return np.asarray(away.argmin(axis=1))

    def _spread(self, border: Border) -> float:
        part = self.coordinates.parts[border.coordinate]
        return part.high - part.low

    def over(self, observations: FloatArray) -> BoolArray:
        """`[n]`: whether an episode would be over at these observations `[n, size]`."""
        values = self.coordinates.encode(observations)
        over = np.zeros(len(observations), dtype=bool)
        for border in self.borders:
            over |= border.excess(values) > 0
        if self.clusters:
            squares = _squares((observations - self.shift) / self.scale)
            for cluster in self.clusters:
                over |= squares @ cluster.weights > 0
        return over

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        return {
            "borders": [asdict(one) for one in self.borders],
            "clusters": [
                {
                    "centre": one.centre.tolist(),
                    "spread": one.spread.tolist(),
                    "share": one.share,
                    "weights": one.weights.tolist(),
                }
                for one in self.clusters
            ],
            "shift": self.shift.tolist(),
            "scale": self.scale.tolist(),
        }

    @classmethod
    def from_json(cls, coordinates: Coordinates, written: Mapping[str, Any]) -> Ends:
        """What `to_json` wrote."""
        return cls(
            coordinates,
            tuple(Border(**one) for one in written["borders"]),
            tuple(
                EndCluster(np.array(one["centre"]), np.array(one["spread"]), one["share"], np.array(one["weights"]))
                for one in written["clusters"]
            ),
            np.array(written["shift"]),
            np.array(written["scale"]),
        )


def _squares(standard: FloatArray) -> FloatArray:
    """`[n, 1 + d + d(d+1)/2]`: one, the numbers, and all their products."""
    rows, columns = np.triu_indices(standard.shape[1])
    return np.concatenate((np.ones((len(standard), 1)), standard, standard[:, rows] * standard[:, columns]), axis=1)


def _boundary(inside: FloatArray, ends: FloatArray, ridge: float = 1e-6) -> FloatArray:
    """Weights of `_squares`, positive at `ends [m, d]` and negative at `inside [n, d]`: a balanced logistic fit."""
    X = _squares(np.concatenate((ends, inside)))
    sign = np.concatenate((np.ones(len(ends)), -np.ones(len(inside))))
    share = np.concatenate((np.full(len(ends), 0.5 / len(ends)), np.full(len(inside), 0.5 / len(inside))))
    scale = np.abs(X).max(axis=0) + 1e-12
    found = logistic(X / scale * sign[:, None], share, ridge)
    return np.asarray(found / scale)


def logistic(D: FloatArray, share: FloatArray, ridge: float) -> FloatArray:
    """`argmin_w Σ share_j·log(1 + exp(-w·D_j)) + ridge/2·‖w‖²` over the rows of `D [n, k]`."""

    def loss(w: FloatArray) -> tuple[float, FloatArray]:
        z = D @ w
        value = share @ np.logaddexp(0.0, -z) + 0.5 * ridge * w @ w
        return float(value), -(share * np.exp(-np.logaddexp(0.0, z))) @ D + ridge * w

    found = scipy.optimize.minimize(loss, np.zeros(D.shape[1]), jac=True, method="L-BFGS-B", options={"maxiter": 1000})
    return np.asarray(found.x)


def _clusters(points: FloatArray, most: int = 3, apart: float = 0.6) -> list[FloatArray]:
    """The points `[m, d]` in groups: one that lies much closer together than the others, or as many as their silhouette
    speaks for; one group unless it is above `apart`."""
    dense = _dense(points)
    if FEWEST_ENDS <= dense.sum() <= len(points) - FEWEST_ENDS:
        return [points[dense], points[~dense]]
    best, groups = apart, [points]
    for number in range(2, most + 1):
        if len(points) < FEWEST_ENDS * number:
            break
        _, label = scipy.cluster.vq.kmeans2(points, number, seed=0, minit="++")
        sizes = np.bincount(label, minlength=number)
        if sizes.min() < FEWEST_ENDS:
            continue
        found = _silhouette(points, label)
        if found > best:
            best, groups = found, [points[label == one] for one in range(number)]
    return groups


def _dense(points: FloatArray) -> BoolArray:
    """`[m]`: which points `[m, d]` are of a group that lies much closer together than the others; all if there is none.

    Two groups by the distance to the next few points, and then, until nothing changes, by two normal distributions.
    """
    gaps = scipy.spatial.cKDTree(points).query(points, k=min(FEWEST_ENDS + 2, len(points)))[0]
    near = np.log(np.maximum(gaps[:, -1], LEAST_SPREAD))
    middle = (near.min() + near.max()) / 2
    dense = near <= middle
    if dense.all() or near[~dense].mean() - near[dense].mean() < np.log(DENSER):
        return np.ones(len(points), dtype=bool)
    for _ in range(20):
        groups = [points[dense], points[~dense]]
        if min(map(len, groups)) < FEWEST_ENDS:
            break
        likely = [
            np.log(len(one) / len(points))
            + _log_density(points, one.mean(axis=0), np.maximum(one.std(axis=0), LEAST_SPREAD))
            for one in groups
        ]
        before, dense = dense, likely[0] > likely[1]
        if (before == dense).all():
            break
    return np.asarray(dense)


def _log_density(points: FloatArray, centre: FloatArray, spread: FloatArray) -> FloatArray:
    """`[n]`: of points `[n, d]` by a normal distribution with independent entries, up to a constant."""
    return np.asarray(-0.5 * (((points - centre) / spread) ** 2).sum(axis=1) - np.log(spread).sum())


def _silhouette(points: FloatArray, label: IntArray) -> float:
    """The mean silhouette: how much nearer points are to their own group than to the next, from -1 to 1."""
    gaps = np.sqrt(((points[:, None] - points) ** 2).sum(axis=2))
    groups = np.unique(label)
    mean = np.stack([gaps[:, label == one].sum(axis=1) for one in groups], axis=1)
    sizes = np.array([(label == one).sum() for one in groups])
    own = np.searchsorted(groups, label)
    rows = np.arange(len(points))
    inner = mean[rows, own] / np.maximum(sizes[own] - 1, 1)
    mean = mean / sizes
    mean[rows, own] = np.inf
    outer = mean.min(axis=1)
    return float(np.mean((outer - inner) / np.maximum(np.maximum(inner, outer), 1e-12)))


@dataclass(frozen=True, eq=False)
class Features:
    """The features of arriving at an observation; all are between 0 and 1."""

    coordinates: Coordinates
    ends: Ends

    @classmethod
    def of(cls, inside: FloatArray, ends: FloatArray, names: Sequence[str] = ()) -> Features:
        """For a simulator in which episodes went on at `inside [n, size]` and were over at `ends [m, size]`."""
        everything = np.concatenate((inside, ends)) if len(ends) else inside
        coordinates = Coordinates.of(everything, names)
        return cls(coordinates, Ends.of(coordinates, inside, ends))

    @property
    def n_features(self) -> int:
        """How many features there are; the last is the step."""
        return sum(part.n_features for part in self.coordinates.parts) + len(self.ends) + 1

    @property
    def groups(self) -> dict[str, slice]:
        """The features by what they are of: each coordinate, each kind of end, and the step."""
        found: dict[str, slice] = {}
        first = 0
        for part in self.coordinates.parts:
            found[part.name] = slice(first, first + part.n_features)
            first += part.n_features
        for name in self.ends.names:
            found[name] = slice(first, first + 1)
            first += 1
        found["the step"] = slice(first, first + 1)
        return found

    @property
    def names(self) -> tuple[str, ...]:
        """What the features are called, in their order."""
        said: list[str] = []
        for part in self.coordinates.parts:
            if part.kind == "flag":
                said.append(part.name)
            else:
                said += [f"{part.name} near {knot:.3g}" for knot in part.knots]
                said.append(f"{part.name} squared")
        return (*said, *self.ends.names, "the step")

    def __call__(self, observations: FloatArray, ends: BoolArray) -> FloatArray:
        """`[n, n_features]` of arriving at observations `[n, size]`, where `ends [n]` is whether that is an end."""
        seen = np.asarray(observations, dtype=np.float64)
        values = self.coordinates.encode(seen)
        parts = [part.features(values[:, place]) for place, part in enumerate(self.coordinates.parts)]
        kinds = np.zeros((len(seen), len(self.ends)))
        over = np.flatnonzero(ends)
        if len(over) and len(self.ends):
            kinds[over, self.ends.kind(seen[over])] = 1.0
        return np.concatenate((*parts, kinds, np.ones((len(seen), 1))), axis=1)

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        return {
            "coordinates": [asdict(part) for part in self.coordinates.parts],
            "size": self.coordinates.size,
            "ends": self.ends.to_json(),
        }

    @classmethod
    def from_json(cls, written: Mapping[str, Any]) -> Features:
        """What `to_json` wrote."""
        parts = tuple(Coordinate(**{**one, "parts": tuple(one["parts"])}) for one in written["coordinates"])
        coordinates = Coordinates(parts, written["size"])
        return cls(coordinates, Ends.from_json(coordinates, written["ends"]))


@dataclass(frozen=True, eq=False)
class VectorReward:
    """A reward that is linear in features: `weights [n_features]`. It is a `RewardFunction`."""

    features: Features
    weights: FloatArray

    def __post_init__(self) -> None:
        if self.weights.shape != (self.features.n_features,):
            raise InputError(f"weights have the shape {self.weights.shape}, not ({self.features.n_features},)")

    def __call__(self, observation: Any, action: Any, next_observation: Any, terminal: bool, step: int) -> float:
        """What the step to `next_observation` is worth."""
        arrived = np.asarray(next_observation, dtype=np.float64)[None]
        return float(self.batch(arrived, np.zeros((1, 1)), arrived, np.array([terminal]))[0])

    def batch(self, observations: FloatArray, actions: FloatArray, arrivals: FloatArray, ends: BoolArray) -> FloatArray:
        """`[n]` of steps to `arrivals [n, size]`; `observations` and `actions` are not looked at."""
        return np.asarray(self.features(arrivals, ends) @ self.weights)

    def to_json(self) -> dict[str, Any]:
        """Plain values, from which `from_json` makes the same reward."""
        return {"features": self.features.to_json(), "weights": self.weights.tolist()}

    @classmethod
    def from_json(cls, written: Mapping[str, Any]) -> VectorReward:
        """What `to_json` wrote."""
        return cls(Features.from_json(written["features"]), np.array(written["weights"]))
