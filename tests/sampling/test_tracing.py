"""The stand-in for arrays of JAX does what arrays of NumPy do."""

import numpy as np
import pytest

from kexpfam.sampling.optional import double_precision
from kexpfam.sampling.tracing import Traced, bare, traced_empty

A = np.array([[1.0, -2.0, 0.5], [3.0, 0.25, -1.0]])
B = np.array([[0.5, 4.0, 2.0], [1.0, 2.0, 3.0]])


def in_place(x, empty):
    out = np.multiply(x, 2.0, out=empty((2, 3)))
    out += x
    out *= B
    return np.exp(np.clip(out, -3.0, 3.0, out=out), out=out)


def written(x, empty):
    out = empty((2, 3))
    out[...] = 0.5
    out[:, 1] = x[:, 0]
    return out


EXPRESSIONS = {
    "arithmetic": lambda x, _: (2.0 - x) / B + x**2 - (-x) * B,
    "right operand": lambda x, _: np.float64(3.0) * x + B @ x.T @ B,
    "functions": lambda x, _: np.hypot(np.log1p(np.abs(x)), np.sign(x)),
    "choice": lambda x, _: np.where((x > 0) & (x != 3.0), x, np.zeros_like(x)),
    "stacking": lambda x, _: np.concatenate([np.stack([x[:, 0], x[:, 1]]), B], axis=1),
    "sums": lambda x, _: np.einsum("ij,ij->i", x, B) + x.sum(axis=1) + np.sum(x),
    "means": lambda x, _: x.mean(axis=0) + x.max(axis=0) - x.min() + np.max(x, axis=0),
    "shapes": lambda x, _: x.reshape(3, 2).T + np.broadcast_to(x[0, 0], (2, 3)),
    "lookup": lambda x, _: np.interp(x, np.array([-2.0, 0.0, 3.0]), B[0]),
    "in place": in_place,
    "written": written,
}


@pytest.mark.parametrize("name", EXPRESSIONS)
def test_numpy_code_gives_the_same_on_stand_ins(name):
    expected = EXPRESSIONS[name](A, np.empty)
    with double_precision():
        found = EXPRESSIONS[name](Traced(A), traced_empty)
        assert isinstance(found, Traced)
        assert found.shape == np.shape(expected)
        np.testing.assert_allclose(np.asarray(bare(found)), expected, rtol=1e-14)


def test_stand_ins_have_the_size_of_their_array():
    with double_precision():
        traced = Traced(A)
        assert (len(traced), traced.ndim, traced.size) == (2, 2, 6)
        assert traced.dtype == np.float64


@pytest.mark.parametrize("use", [bool, float, np.asarray, lambda x: A.copy().dot(x)])
def test_questions_about_unknown_values_are_refused(use):
    with double_precision(), pytest.raises(TypeError):
        use(Traced(1.0))


def test_results_cannot_be_written_to_arrays_of_numpy():
    with double_precision(), pytest.raises(TypeError, match="array of NumPy"):
        np.exp(Traced(A), out=np.empty((2, 3)))
