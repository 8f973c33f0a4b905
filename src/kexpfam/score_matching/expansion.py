"""The function T as a finite sum in the RKHS, and its derivatives in y.

The exact minimiser, ξ̂ and the low-rank fits are expansions over centres (x_b, y_b),

    T(x, y) = Σ_b [ e_b + Σ_i ( a_bi ∂_i + c_bi ∂_i² ) ] K((x_b, y_b), (x, y)),

where ∂_i acts on y_b. For products k_X·k_Y what depends on the conditions is one kernel
matrix per term, which is computed once. After that, T at nodes shared by all conditions
costs a kernel matrix of y and a matrix product, and T at each condition's own points a
kernel matrix of y.

For a density q0(y) exp T(x, y) / Z(x), Hyvärinen's objective needs of q0 only its
gradient, and of Z nothing. On a bounded support the integration by parts behind it
leaves a boundary term, unless every direction is weighted by a function g_i that
vanishes at the edge; the weighted objective is quadratic in T as before.
"""

from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from kexpfam._linalg import Empty, for_each_row_block
from kexpfam._parallel import cached_property, on_threads
from kexpfam._typing import Array, Indices
from kexpfam.kernels import Constant, Gaussian, JointKernel, Kernel, Pairs
from kexpfam.persistence import saved_fit


@saved_fit(
    {
        "X": "m p moderate",
        "Y": "m d moderate",
        "first": "m d",
        "second": "m d",
        "zeroth": "m",
        "n_jobs": "omitted",
    }
)
@dataclass(frozen=True)
class KernelExpansion:
    """T = Σ_b [e_b + Σ_i (a_bi ∂_i + c_bi ∂_i²)] K((x_b, y_b), ·), theory (3).

    Coefficients that are None are zero, and cost nothing.
    """

    kernel: JointKernel  # The joint kernel K
    X: Array  # Conditions of the centres, (m, p); p may be 0
    Y: Array  # Responses of the centres, (m, d)
    first: Array | None = None  # Coefficients a of first derivatives, (m, d), or None
    second: Array | None = None  # Coefficients c of second derivatives, (m, d), or None
    zeroth: Array | None = None  # Coefficients e of the kernel itself, (m,), or None
    n_jobs: int | None = None  # Threads used for evaluation; None for all cores

    def check_saved(self) -> None:
        """Refuse a function without coefficients, or that is not finite."""
        if self.zeroth is None and self.first is None and self.second is None:
            raise ValueError("an array of coefficients is missing")
        # Touched once, so that lengthscales of a wrong length show up here.
        if not np.isfinite(self.value(self.X[:1], self.Y[:1])).all():
            raise ValueError("T is not a finite function")

    @property
    def derivatives(self) -> list[tuple[int, int, Array]]:
        """Order, column and coefficients (m,) of every derivative that occurs."""
        found = [] if self.zeroth is None else [(0, 0, self.zeroth)]
        for i in range(self.Y.shape[1]):
            if self.first is not None:
                found.append((1, i, self.first[:, i]))
            if self.second is not None:
                found.append((2, i, self.second[:, i]))
        return found

    @property
    def factorizes(self) -> bool:
        """Whether each centre is a product of functions of single columns of y."""
        gaussian = all(isinstance(ky, Gaussian) for _, ky in self.kernel.products)
        return gaussian and self.first is None and self.second is None

    def value(self, X: Array, Y: Array) -> Array:
        """T at the pairs (X_q, Y_q), shape (q,)."""
        return self._evaluate(0, X, Y)[:, 0]

    def gradient(self, X: Array, Y: Array) -> Array:
        """∂_jT at the pairs (X_q, Y_q), shape (q, d)."""
        return self._evaluate(1, X, Y)

    def second_derivative(self, X: Array, Y: Array) -> Array:
        """∂_j²T at the pairs (X_q, Y_q), shape (q, d)."""
        return self._evaluate(2, X, Y)

    def squared_norm(self) -> float:
        """‖T‖² in the RKHS, by the reproducing property."""
        # theory (11): ⟨T, ∂_iʳK_b⟩ = ∂_iʳT(x_b, y_b)
        values = [self._evaluate(order, self.X, self.Y) for order in range(3)]
        return float(sum(c @ values[order][:, i] for order, i, c in self.derivatives))

    def _evaluate(self, order: int, X: Array, Y: Array) -> Array:
        d = self.Y.shape[1]
        out = np.empty((len(Y), d if order else 1))

        def work(rows: slice, empty: Empty) -> None:
            pairs = self.kernel.at(X[rows], Y[rows], self.X, self.Y, empty)
            for j in range(out.shape[1]):
                out[rows, j] = self.contract(pairs, order, j)

        for_each_row_block(len(Y), len(self.Y), work, n_jobs=self.n_jobs)
        return out

    @cached_property
    def node_features(self) -> "NodeFeatures":
        """What T has of nodes that many conditions share."""
        return NodeFeatures(self)

    def write_features(
        self, ky: Kernel, nodes: Array, out: Array, empty: Empty
    ) -> None:
        """Write [e + Σ_i (a_i ∂_i + c_i ∂_i²)] k_Y of one kernel at nodes, (g, m)."""
        pairs = ky.at(nodes, self.Y, empty=empty)
        out[...] = 0.0
        for order, i, coefficients in self.derivatives:
            term = pairs.partial(0, 0, order, i)
            # The kernel itself is kept by the pairs; derivatives are ours.
            product = term if order else empty(term.shape)
            out += np.multiply(term, coefficients, out=product)

    def contract(self, pairs: Pairs, order: int, j: int) -> Array:
        """∂_jʳT for the rows of pairs (query, centre): the sum over centres."""
        # Σ_b Σ_i a_bi ∂_jʳ∂'_iK(q, b) + c_bi ∂_jʳ∂'_i²K(q, b), and e_b ∂_jʳK(q, b)
        return sum(
            (pairs.partial(order, j, s, i) @ c for s, i, c in self.derivatives),
            start=np.zeros(()),
        )


class NodeFeatures:
    """Terms of T(·, y_g) without the factors k_X, before the sum over centres.

    They do not depend on x, and quadratures of different conditions begin with the same
    nodes, so that the last ones are kept: of small blocks of rows, or of single ones,
    they are most of the work. Only those are kept that are asked for again: most others
    are of cells that one condition needs, and never come back.
    """

    _most_once = 64  # How many are remembered that were asked for once

    def __init__(self, T: KernelExpansion, most_numbers: int = 2**21) -> None:
        """Keep at most so many numbers (16 MiB)."""
        self._T, self._most = T, most_numbers
        self._kept: dict[bytes, tuple[Array, ...]] = {}
        self._once: dict[int, None] = {}  # Hashes of nodes, in the order of asking

    def __reduce__(self) -> tuple[Any, ...]:
        # What is kept is not worth sending to another process.
        return NodeFeatures, (self._T, self._most)

    def at(self, nodes: Array) -> tuple[Array, ...]:
        """Features of each product of kernels at nodes (g, d), (g, m) each."""
        key = nodes.tobytes()
        # Taken out and put back, so that the oldest comes first. Another thread may
        # meanwhile find the same anew.
        found = self._kept.pop(key, None)
        if found is None:
            products = self._T.kernel.products
            found = tuple(self._computed(ky, nodes) for _, ky in products)
            if not self._asked_before(hash(key)):
                return found
        if len(nodes) * len(self._T.Y) * len(found) <= self._most // 4:
            self._kept[key] = found
        kept = list(self._kept.items())
        sizes = np.cumsum([sum(part.size for part in one) for _, one in kept[::-1]])
        for old, _ in kept[: len(kept) - int(np.sum(sizes <= self._most))]:
            self._kept.pop(old, None)
        return found

    def _asked_before(self, number: int) -> bool:
        """Whether nodes with this hash were asked for lately; from now on they were."""
        before = number in self._once
        self._once.pop(number, None)
        if not before:
            self._once[number] = None
            for old in list(self._once)[: -self._most_once]:
                self._once.pop(old, None)
        return before

    @property
    def most_numbers(self) -> int:
        """How many numbers are kept at most."""
        return self._most

    def _computed(self, ky: Kernel, nodes: Array) -> Array:
        T = self._T
        features = np.empty((len(nodes), len(T.Y)))

        def work(rows: slice, empty: Empty) -> None:
            T.write_features(ky, nodes[rows], features[rows], empty)

        for_each_row_block(*features.shape, work, n_jobs=T.n_jobs)
        features.flags.writeable = False
        return features


@dataclass(frozen=True)
class ConditionedExpansion:
    """T at n conditions."""

    T: KernelExpansion  # The function
    X: Array  # The conditions, (n, p)

    def on_nodes(self, nodes: Array) -> Array:
        """T(x_r, y_g) at nodes shared by all conditions, (g, d) -> (n, g)."""
        products = self.T.kernel.products
        if not products:
            return self.value(np.broadcast_to(nodes, (len(self.X), *nodes.shape)))
        # Σ_t Σ_b k_X(x_r, x_b) [Σ_i (a_bi ∂_i + c_bi ∂_i²) k_Y](y_b, y_g)
        features = self.T.node_features
        if len(nodes) * len(self.T.Y) > features.most_numbers:
            return self._on_many_nodes(nodes)
        parts = zip(
            products,
            features.at(nodes),
            self.row_parameters,
            strict=True,
        )
        total, shared = np.zeros((len(self.X), len(nodes))), np.zeros(len(nodes))
        for number, ((kx, _), terms, matrix) in enumerate(parts):
            if isinstance(kx, Constant):  # the same for all conditions
                shared += terms @ matrix[0] if len(matrix) else 0.0
            elif number == 0:
                np.matmul(matrix, terms.T, out=total)
            else:
                total += matrix @ terms.T
        if shared.any():
            total += shared
        return total

    def _on_many_nodes(self, nodes: Array) -> Array:
        """The same for nodes of the plane, whose features are used while cached."""
        T, total = self.T, np.zeros((len(self.X), len(nodes)))
        matrices = self.row_parameters
        sides = _sides_of_grid(nodes)
        if sides is not None and T.factorizes:
            self._add_grid(total.reshape(-1, *map(len, sides)), sides)
            return total

        def work(some: slice, empty: Empty) -> None:
            for (_, ky), matrix in zip(T.kernel.products, matrices, strict=True):
                terms = empty((some.stop - some.start, len(T.Y)))
                T.write_features(ky, nodes[some], terms, empty)
                total[:, some] += matrix @ terms.T

        for_each_row_block(len(nodes), len(T.Y), work, n_jobs=T.n_jobs)
        return total

    def _add_grid(self, total: Array, sides: tuple[Array, Array]) -> None:
        """Add T at all pairs of values of two columns of y, (n, a, b).

        Gaussians of the plane are products of those along either column, so that
        T(x, ·) is Σ_b k_1(y_1, y_b1) e_b k_X(x, x_b) k_2(y_2, y_b2), one product of
        matrices.
        """
        T = self.T
        assert T.zeroth is not None
        for (_, ky), matrix in zip(T.kernel.products, self.row_parameters, strict=True):
            assert isinstance(ky, Gaussian)
            lengths = np.broadcast_to(np.asarray(ky.lengthscale, dtype=float), 2)
            first, second = (
                Gaussian(length).values(side[:, None], T.Y[:, [i]])
                for i, (length, side) in enumerate(
                    zip(lengths.tolist(), sides, strict=True)
                )
            )
            first *= T.zeroth

            def add(
                row: int, K: Array = matrix, left: Array = first, right: Array = second
            ) -> None:
                total[row] += (left * K[row]) @ right.T

            on_threads(add, range(len(total)), T.n_jobs)

    def value(self, U: Array) -> Array:
        """T at each condition's own points, (n, q, d) -> (n, q)."""
        return self._evaluate(0, U)[..., 0]

    def gradient(self, U: Array) -> Array:
        """∂_jT at each condition's own points, (n, q, d) -> (n, q, d)."""
        return self._evaluate(1, U)

    @cached_property
    def row_parameters(self) -> tuple[Array, ...]:
        """What T needs to know of the conditions, (n, ...) each."""
        return self.T.kernel.row_parameters(self.X, self.T.X, self.T.n_jobs)

    def _evaluate(self, order: int, U: Array) -> Array:
        (n, q, d), T = U.shape, self.T
        flat = U.reshape(-1, d)
        out = np.empty((n * q, d if order else 1))
        parameters = self.row_parameters

        def work(rows: slice, empty: Empty) -> None:
            # With one point each, rows are conditions and need not be copied.
            one_each = rows if q == 1 else np.arange(rows.start, rows.stop) // q
            own = tuple(part[one_each] for part in parameters)
            pairs = T.kernel.at_rows(own, flat[rows], T.X, T.Y, empty)
            for j in range(out.shape[1]):
                out[rows, j] = T.contract(pairs, order, j)

        for_each_row_block(n * q, len(T.Y), work, n_jobs=T.n_jobs)
        return out.reshape(n, q, out.shape[1])


def _sides_of_grid(nodes: Array) -> tuple[Array, Array] | None:
    """The values of two columns whose pairs, in order, are the nodes; None if not."""
    if nodes.shape[1] != 2 or not len(nodes):
        return None
    others = np.flatnonzero(nodes[:, 0] != nodes[0, 0])
    width = int(others[0]) if others.size else len(nodes)
    if len(nodes) % width:
        return None
    pairs = nodes.reshape(-1, width, 2)
    first, second = pairs[:, 0, 0], pairs[0, :, 1]
    alike = np.all(pairs[..., 0] == first[:, None]) and np.all(pairs[..., 1] == second)
    return (first, second) if alike else None


@dataclass(frozen=True)
class ScoreSample:
    """Weighted rows, with what the objective needs to know of q0 at each of them."""

    X: Array  # Conditions, (n, p)
    Y: Array  # Responses in the coordinates of the kernel, (n, d)
    weights: Array  # Row weights that sum to one, (n,)
    gsm_linear: Array  # g_i′ + g_i ∂_i log q0 at each row, (n, d); ∂ log q0 where g = 1
    gsm_weights: Array  # g_i at each row, (n, d)

    def part(self, rows: Indices | slice) -> "ScoreSample":
        """Some of the rows, with the weights that they have here."""
        return ScoreSample(*(getattr(self, f.name)[rows] for f in fields(self)))


def score_matching_loss(T: KernelExpansion, sample: ScoreSample) -> float:
    """Ĵ(T) without its penalty, theory (2).

    Σ_a w_a Σ_i [ ½ g_i (∂_iT)² + g_i ∂_i²T + (g_i′ + g_i ∂_i log q0) ∂_iT ](x_a, y_a).
    """
    gradient = T.gradient(sample.X, sample.Y)
    curvature = T.second_derivative(sample.X, sample.Y)
    terms = (
        sample.gsm_weights * (0.5 * gradient**2 + curvature)
        + sample.gsm_linear * gradient
    )
    return float(sample.weights @ np.sum(terms, axis=1))
