"""The array API standard: what its own suite (array_api.sh) does not say, and a little of what it does."""

import importlib.util
import os
import subprocess
import sys

import numpy as np
import pytest

import hammock as hm
from hammock import array_api as xp


def test_tensors_name_the_namespace():
    x = hm.tensor([1.0])
    assert x.__array_namespace__() is xp and x.__array_namespace__(api_version="2025.12") is xp
    with pytest.raises(ValueError, match="no version"):
        x.__array_namespace__(api_version="1999.1")
    assert isinstance(xp.add(x, x), xp.Array) and isinstance(xp.add(x, x), hm.Tensor)
    assert xp.__array_api_version__ == "2025.12"


def test_operators_promote_whatever_the_number_of_dims():
    small, wide = xp.asarray([1, 2], dtype=xp.int8), xp.asarray(300, dtype=xp.int32)
    assert (small + wide).dtype is xp.int32 and (small + wide).tolist() == [301, 302]
    assert (xp.asarray([1], dtype=xp.uint8) - xp.asarray([2], dtype=xp.int8)).tolist() == [-1]
    assert (small + 1).dtype is xp.int8 and (1 - small).tolist() == [0, -1] and (2.0 * xp.ones(2)).dtype is xp.float32
    with pytest.raises(OverflowError):
        small + 1000
    with pytest.raises(TypeError):
        small += wide
    with pytest.raises(TypeError, match="no integers hold"):
        xp.asarray([1], dtype=xp.uint64) + xp.asarray([1], dtype=xp.int64)
    with pytest.raises(TypeError):
        small + "a"
    small += 1
    assert small.tolist() == [2, 3] and isinstance(small, xp.Array)


def test_arrays_have_the_standards_attributes():
    x = xp.reshape(xp.arange(6), (2, 3))
    assert x.size == 6 and x.size() == (2, 3) and x.size(1) == 3 and x.T.shape == (3, 2) and x.ndim == 2
    assert x.to_device(x.device).tolist() == x.tolist() and isinstance(x[0], xp.Array)
    with pytest.raises(ValueError):
        xp.ones((2, 2, 2)).T
    info = xp.__array_namespace_info__()
    assert info.dtypes(kind="unsigned integer") == {f"uint{n}": getattr(xp, f"uint{n}") for n in (8, 16, 32, 64)}
    assert info.default_device() in info.devices() and info.default_dtypes()["real floating"] is xp.float32
    with pytest.raises(ValueError, match="no kind"):
        info.dtypes(kind="strings")


def test_slices_may_run_backwards():
    x, n = xp.reshape(xp.arange(12), (3, 4)), np.arange(12).reshape(3, 4)
    for key in ((slice(None, None, -1),), (..., slice(3, None, -2)), (1, slice(None, 0, -1)), (None, slice(5, 5, -1))):
        assert x[key].tolist() == n[key].tolist(), key
    x[::-1, ::-2] = xp.asarray([10, 20])
    n[::-1, ::-2] = [10, 20]
    assert x.tolist() == n.tolist()


def test_special_values_are_the_standards():
    inf, nan = xp.inf, xp.nan
    assert xp.floor_divide(xp.asarray(inf), 2.0).item() == inf and np.isnan(xp.sign(xp.asarray(nan)).item())
    assert xp.exp(xp.asarray(complex(-inf, nan))).item() == 0
    assert xp.acosh(xp.asarray(complex(inf, inf))).item() == complex(inf, np.float32(np.pi / 4))
    assert np.signbit(xp.remainder(xp.asarray(0.0), -1.0).item())


def test_limits_of_dtypes():
    assert xp.iinfo(xp.uint64).max == 2**64 - 1 and hm.iinfo(hm.int8).min == -128
    assert hm.finfo(hm.complex128).bits == 64 and hm.finfo(hm.float16).smallest_normal == 2.0**-14
    assert hm.tensor([2**64 - 1], dtype=hm.uint64).tolist() == [2**64 - 1] == [hm.tensor(2**64 - 1, dtype=hm.uint64).item()]
    for value, dtype in ((2**63, None), (2**63, hm.int64), (2**64, hm.uint64)):
        with pytest.raises(OverflowError):
            hm.tensor([value], dtype=dtype)
    for bad in (hm.bool, hm.int32, "f", None):
        with pytest.raises(TypeError):
            hm.finfo(bad)
    for bad in (hm.bool, hm.float32, hm.complex64, 3):
        with pytest.raises(TypeError):
            hm.iinfo(bad)


LIBRARIES = {
    "einops": """
from einops import array_api
assert array_api.rearrange(x, "a b -> b a").tolist() == n.T.tolist()
close(array_api.reduce(x, "a b -> b", "mean"), n.mean(0))
""",
    "scipy": """
from scipy import cluster, integrate, special, stats
close(special.logsumexp(x, axis=0), special.logsumexp(n, axis=0))
close(stats.zscore(x), stats.zscore(n))
close(stats.ttest_1samp(x, 0.0).pvalue, stats.ttest_1samp(n, 0.0).pvalue)
close(integrate.trapezoid(x, axis=0), integrate.trapezoid(n, axis=0))
""",
    "sklearn": """
import sklearn
from sklearn.decomposition import PCA
from sklearn.linear_model import Ridge
from sklearn.preprocessing import MinMaxScaler
sklearn.set_config(array_api_dispatch=True)
close(MinMaxScaler().fit_transform(x), MinMaxScaler().fit_transform(n))
close(abs(PCA(2, svd_solver="full").fit_transform(x)), abs(PCA(2, svd_solver="full").fit_transform(n)))
close(Ridge(solver="svd").fit(x, x[:, 0]).coef_, Ridge(solver="svd").fit(n, n[:, 0]).coef_)
""",
}


@pytest.mark.parametrize("library", LIBRARIES)
def test_other_libraries_take_hammocks_arrays(library):
    if importlib.util.find_spec(library) is None:
        pytest.skip(f"there is no {library}; array_api.sh installs it")
    head = """
import numpy as np
from hammock import array_api as xp
n = np.random.RandomState(0).randn(20, 3)
x = xp.asarray(n)
def close(ours, theirs):
    assert isinstance(ours, xp.Array), type(ours)
    np.testing.assert_allclose(np.asarray(ours), theirs, atol=1e-9)
"""
    subprocess.run([sys.executable, "-c", head + LIBRARIES[library]], check=True, env={**os.environ, "SCIPY_ARRAY_API": "1"})


def test_unique_functions_tell_nans_apart():
    values, indices, inverse, counts = xp.unique_all(xp.asarray([[3.0, xp.nan], [3.0, xp.nan]]))
    assert values[0].item() == 3 and values.shape == (3,) and counts.tolist() == [2, 1, 1]
    assert indices.tolist() == [0, 1, 3] and inverse.tolist() == [[0, 1], [0, 2]]
    assert xp.unique_values(xp.zeros((0,))).shape == (0,)


def test_real_and_imag_are_attributes():
    z = hm.tensor([1 + 2j, 3.0])
    assert z.real.tolist() == [1, 3] and z.imag.tolist() == [2, 0] and hm.real(z).tolist() == [1, 3]
    x = hm.tensor([[1.0, 2.0]])
    assert x.real is x and x.mT.shape == x.T.shape == (2, 1)
    assert hm.tensor([[1, 2j]]).mH.tolist() == [[1], [-2j]] == hm.tensor([[1, 2j]]).H.tolist()
    with pytest.raises(TypeError):
        x.imag
