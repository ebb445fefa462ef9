"""Least squares with standard errors, with signs held, and how far its columns explain each other."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray


def least_squares(
    design: NDArray[np.float64],
    y: NDArray[np.float64],
    weights: NDArray[np.float64],
    groups: NDArray[np.int64],
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The coefficients that minimise sum(weights * (y - design @ coefficients)^2), and their standard errors.

    If columns are linearly dependent, it is the shortest such vector. See `jackknife_errors` for the errors. `design`,
    (n, k), has columns of similar magnitudes; `y`, `weights` >= 0 and `groups` are (n,). Rows of one group may depend
    on each other, groups may not.
    """
    root = np.sqrt(weights)
    x, y = root[:, None] * design, root * y
    coefficients = np.linalg.pinv(x) @ y
    return coefficients, jackknife_errors(x, y - x @ coefficients, groups)


def jackknife_errors(
    x: NDArray[np.float64], left: NDArray[np.float64], groups: NDArray[np.int64]
) -> NDArray[np.float64]:
    """Standard errors of least squares' coefficients, (k,), from how much they change without each group of rows.

    They hold if rows of a group depend on each other, if variances differ, and if few groups carry most of the weight,
    for which the usual cluster-robust errors are too small. A coefficient that one group alone determines has an error
    of inf. Source: the jackknife of Bell and McCaffrey, Survey Methodology 2002, computed with all groups' coefficients
    as the centre. `x`: the design with the weights' roots multiplied in, (n, k); `left`: weighted residuals, (n,).
    """
    basis, size, axes = np.linalg.svd(x, full_matrices=False)
    kept = size > size[0] * x.shape[1] * np.finfo(float).eps
    basis, back = basis[:, kept], axes[kept].T / size[kept]
    rows_of = np.split(np.argsort(groups, kind="stable"), np.cumsum(np.unique(groups, return_counts=True)[1])[:-1])
    total, unknown = np.zeros(x.shape[1]), np.zeros(x.shape[1], bool)
    for rows in rows_of:
        share, directions = np.linalg.eigh(basis[rows].T @ basis[rows])  # how much of each direction the group holds
        others = share < 1 - 1e-9
        change = (directions.T @ (basis[rows].T @ left[rows]))[others] / (1 - share[others])
        total += (back @ (directions[:, others] @ change)) ** 2
        unknown |= np.abs(back @ directions[:, ~others]).max(axis=1, initial=0) > 1e-9 * np.abs(back).max(axis=1)
    return np.where(unknown, np.inf, np.sqrt(total * (len(rows_of) - 1) / len(rows_of)))


def signed_least_squares(
    design: NDArray[np.float64], y: NDArray[np.float64], weights: NDArray[np.float64], signs: Sequence[int]
) -> NDArray[np.float64]:
    """As `least_squares`, among the coefficients whose `signs`, 1 or -1, are allowed; the others are 0. Shape (k,).

    The problem is convex: its solution is the plain one over the columns that are not held at 0, so all sets of columns
    are tried; k is small. `design`, (n, k), has columns of similar magnitudes; `y` and `weights` >= 0 are (n,).
    """
    root = np.sqrt(weights)
    q, r = np.linalg.qr(root[:, None] * design)
    target = q.T @ (root * y)
    best, least = np.zeros(len(signs)), float(target @ target)
    for free in itertools.product((True, False), repeat=len(signs)):
        chosen = np.flatnonzero(free)
        found = np.linalg.lstsq(r[:, chosen], target, rcond=None)[0]
        left = target - r[:, chosen] @ found
        if (found * np.asarray(signs)[chosen] >= 0).all() and left @ left < least:
            best, least = np.zeros(len(signs)), float(left @ left)
            best[chosen] = found
    return best


def variance_inflation(design: NDArray[np.float64]) -> NDArray[np.float64]:
    """1 / (1 - R^2) of each column of `design`, (n, k), on all others, shape (k - 1,): the first, a constant, has none.

    A constant column has 1, or nan if the others explain it to the last bit. Source: Marquardt, Technometrics 1970.
    """
    spread = design.std(axis=0)
    varies = spread > 1e-10
    standard = np.where(varies, (design - design.mean(axis=0)) / np.where(varies, spread, 1), design)
    factors = []
    for k in range(1, design.shape[1]):
        y, others = standard[:, k], standard[:, np.arange(design.shape[1]) != k]
        left, centred = y - others @ (np.linalg.pinv(others) @ y), y - y.mean()
        with np.errstate(divide="ignore", invalid="ignore"):
            explained = 1 - left @ left / (centred @ centred)
        factors.append(1 / (1 - np.clip(explained, 0, 1 - 1e-15)))  # at most about 1e15, the limit of rounding
    return np.array(factors)
