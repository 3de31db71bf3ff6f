"""Quantiles of the chi-square distribution, against SciPy's."""

import numpy as np
import pytest
from scipy.stats import chi2

from adjudge.kernels.special import chi_square_quantile


@pytest.mark.parametrize("p", [5e-7, 0.0005, 0.025, 0.25, 0.5])
def test_equal_to_scipy(p):
    freedom = np.array([0.01, 0.3, 1, 2, 2.5, 3, 10, 31, 100.5, 999, 1999.9, 2000, 2001, 12_345, 1e6])
    assert chi_square_quantile(p, freedom) == pytest.approx(chi2.ppf(p, freedom), rel=1e-10)


def test_nothing_and_repeated_numbers():
    assert len(chi_square_quantile(0.025, np.zeros(0))) == 0
    assert len(set(chi_square_quantile(0.025, np.full(5, 7.0)).tolist())) == 1
