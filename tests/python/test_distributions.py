"""hm.distributions: values of tests/distributions/pytorch.json, draws, wrong arguments."""

import json
import math
import pathlib
import types

import numpy as np
import pytest

import hammock as hm

d = hm.distributions
FOLDER = pathlib.Path(__file__).resolve().parents[1] / "distributions"
EXPECTED = json.loads((FOLDER / "pytorch.json").read_text())


def wide(values, **_):
    return hm.tensor(values, dtype=hm.int64 if np.asarray(values).dtype.kind == "i" else hm.float64)


def cases():
    """The table of the script that made the file, with Hammock's classes in the place of PyTorch's."""
    text = (FOLDER / "pytorch.py").read_text()
    table = text[text.index("A, B ="):text.index("def listed")].replace("d.transforms.", "d.")
    names = {"d": d, "torch": types.SimpleNamespace(tensor=wide)}
    exec(table, names)
    return names["CASES"]


CASES = cases()


def same(tensor, expected):
    np.testing.assert_allclose(np.ravel(tensor.detach().tolist()), [float(e) for e in expected], rtol=1e-7, atol=1e-7)


@pytest.mark.parametrize("name", CASES)
def test_values_are_those_of_pytorch(name):
    make, parameters, value, other = CASES[name]
    expected = EXPECTED[name]
    leaves = [wide(each).requires_grad_() for each in parameters]
    p = make(*leaves)
    assert p.batch_shape == tuple(expected["batch"]) and p.event_shape == tuple(expected["event"])
    log_prob = p.log_prob(wide(value))
    same(log_prob, expected["log_prob"])
    log_prob.sum().backward()
    for leaf, grad in zip(leaves, expected["grads"]):
        same(leaf.grad, grad)
    for attribute in ("mean", "variance", "stddev"):
        if attribute in expected:
            same(getattr(p, attribute), expected[attribute])
    checked = 0
    for method, given in (("entropy", []), ("cdf", [wide(value)]), ("icdf", [wide([0.25, 0.5, 0.9])])):
        try:
            result = getattr(p, method)(*given)
        except hm.NotSupported:
            continue
        if method in expected:
            same(result, expected[method])
            checked += 1
    assert checked > 0 or name in ("Poisson", "TransformedDistribution", "Softplus")
    if other is not None:
        same(d.kl_divergence(p, make(*[wide(each) for each in other])), expected["kl"])


def test_every_class_has_a_case():
    classes = {name for name, kind in vars(d).items() if isinstance(kind, type) and issubclass(kind, d.Distribution)}
    assert classes - {"Distribution"} <= set(CASES) and d.Normal.__module__ == "hammock.distributions"


def test_draws_have_sizes_gradients_and_the_seed():
    loc, scale = hm.tensor([0.5, 2.0], requires_grad=True), hm.tensor(2.0, requires_grad=True)
    normal = d.Normal(loc, scale)
    assert normal.has_rsample and repr(normal) == "Normal(batch_shape=(2,), event_shape=())"
    drawn = normal.rsample([20000])
    assert drawn.shape == (20000, 2) and normal.sample(3).shape == (3, 2) and normal.sample().shape == (2,)
    assert not normal.sample().requires_grad
    (drawn ** 2).mean(0).sum().backward()  # E x^2 = loc^2 + scale^2
    np.testing.assert_allclose(loc.grad.tolist(), [1, 4], atol=0.15)
    assert abs(scale.grad.item() - 8) < 0.3
    hm.manual_seed(3)
    first = d.Gamma(0.5, 1.0).sample((100,))
    hm.manual_seed(3)
    assert d.Gamma(0.5, 1.0).sample((100,)).tolist() == first.tolist()
    classes = d.Categorical(probs=hm.tensor([0.0, 0.25, 0.75])).sample((20000,))
    assert classes.dtype is hm.int64
    np.testing.assert_allclose(np.bincount(classes.numpy(), minlength=3) / 20000, [0, 0.25, 0.75], atol=0.02)
    with pytest.raises(hm.NotSupported, match="Bernoulli has no rsample"):
        d.Bernoulli(0.5).rsample()


def test_logits_and_matrices():
    logits = hm.tensor([0.3, -1.0, 2.0])
    for kind in (d.Bernoulli, d.Geometric):
        same(kind(logits=logits).mean, kind(probs=hm.sigmoid(logits)).mean.tolist())
    same(d.Binomial(4, logits=logits).mean, (4 * hm.sigmoid(logits)).tolist())
    same(d.Categorical(logits=logits).probs, hm.softmax(logits, 0).tolist())
    same(d.Multinomial(5, logits=logits).mean, (5 * hm.softmax(logits, 0)).tolist())
    assert abs(d.Bernoulli(logits=0.0).probs.item() - 0.5) < 1e-7
    covariance = hm.tensor([[2.0, 0.6], [0.6, 1.0]])
    by = {"covariance_matrix": covariance, "precision_matrix": hm.linalg.inv(covariance), "scale_tril": hm.linalg.cholesky(covariance)}
    for name, matrix in by.items():
        p = d.MultivariateNormal(hm.zeros(2), **{name: matrix})
        np.testing.assert_allclose(p.covariance_matrix.tolist(), covariance.tolist(), atol=1e-5)


def test_bases_and_transforms():
    base = d.Normal(hm.zeros(2, 3), 1.0)
    independent = d.Independent(base, 1)
    assert independent.batch_shape == (2,) and independent.event_shape == (3,)
    assert independent.base_dist is base and independent.reinterpreted_batch_ndims == 1
    doubled = d.Transform(lambda x: x * 2, lambda y: y / 2, lambda x, y: hm.full_like(x, math.log(2)), "Double")
    p = d.TransformedDistribution(d.Normal(0.0, 1.0), doubled)
    assert abs(p.log_prob(hm.tensor(1.0)).item() - d.Normal(0.0, 2.0).log_prob(1.0).item()) < 1e-6
    assert repr(doubled) == "Double()" and doubled.inverse(hm.tensor(4.0)).item() == 2
    assert d.ExpTransform()(hm.tensor(0.0)).item() == 1
    del base, doubled
    assert independent.sample().shape == (2, 3) and p.sample((4,)).shape == (4,)


def test_a_posterior_trains_in_a_compiled_step():
    loc, log_scale = hm.tensor(3.0, requires_grad=True), hm.tensor(1.0, requires_grad=True)
    optimizer = hm.optim.Adam([loc, log_scale], lr=0.05)

    @hm.compile
    def step():
        optimizer.zero_grad()
        loss = d.kl_divergence(d.Normal(loc, log_scale.exp()), d.Normal(0.0, 0.5))
        loss.backward()
        optimizer.step()
        return loss

    for _ in range(200):
        step()
    assert abs(loc.item()) < 0.05 and abs(log_scale.exp().item() - 0.5) < 0.05


def test_wrong_arguments_are_errors():
    with pytest.raises(ValueError, match="scale must be positive"):
        d.Normal(0.0, -1.0)
    with pytest.raises(hm.DeviceError, match="scale must be positive.*test_distributions.py"):
        d.Normal(0.0, hm.tensor([-1.0])).sample().tolist()
    for wrong in (lambda: d.Normal("a", 1.0), lambda: d.Normal(0.0), lambda: d.Normal([0.0], 1.0), lambda: d.Normal(None, None),
                  lambda: d.Categorical([0.5]), lambda: d.Normal(0.0, 1.0).sample("x"), lambda: d.Normal(0.0, 1.0).log_prob("x"),
                  lambda: d.Independent(1, 1), lambda: d.TransformedDistribution(d.Normal(0.0, 1.0), [1]),
                  lambda: d.Distribution(), lambda: d.kl_divergence(1, 2)):
        with pytest.raises((TypeError, RuntimeError)):
            wrong()
    for wrong in (lambda: d.Bernoulli(), lambda: d.Bernoulli(0.5, 0.5), lambda: d.Categorical(), lambda: d.Categorical(hm.ones(2), hm.ones(2)),
                  lambda: d.Binomial(3), lambda: d.Multinomial(2), lambda: d.Binomial(-1, 0.5), lambda: d.MultivariateNormal(hm.zeros(2)),
                  lambda: d.Independent(d.Normal(0.0, 1.0), 2), lambda: d.Categorical(hm.tensor(1.0))):
        with pytest.raises(ValueError):
            wrong()
    with pytest.raises(hm.NotSupported, match="kl_divergence"):
        d.kl_divergence(d.Normal(0.0, 1.0), d.Poisson(1.0))
    with pytest.raises(hm.NotSupported):
        d.Poisson(1.0).entropy()
