"""Rank correlations against scipy's."""

from __future__ import annotations

import numpy as np
import pytest

from batfill.base.sums import rank_correlation, ranks


def test_the_rank_correlation_of_equal_values_is_unknown():
    assert np.isnan(rank_correlation(np.array([1, 2, 3]), np.array([4, 4, 4])))


@pytest.mark.parametrize("seed", range(20))
def test_the_rank_correlation_is_scipys(seed):
    reference = pytest.importorskip("scipy.stats")
    draw = np.random.default_rng(seed)
    x, y = draw.integers(0, 9, 30), draw.normal(size=30)
    assert ranks(x.astype(float)).tolist() == reference.rankdata(x).tolist()
    assert rank_correlation(x, y) == pytest.approx(reference.spearmanr(x, y).statistic, abs=1e-12)
