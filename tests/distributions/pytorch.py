"""Prints what PyTorch's distributions give for fixed parameters and values, as pytorch.json has it.

    python3 pytorch.py > pytorch.json
"""
import json
import torch
from torch import distributions as d

torch.set_default_dtype(torch.float64)


def leaf(values):
    return torch.tensor(values, requires_grad=True)


A, B = [0.5, 1.5, 3.0], [2.0, 0.7, 1.1]
P, R = [0.2, 0.7, 0.4], [0.6, 0.1, 0.5]
ROWS, OTHER = [[0.2, 0.5, 0.3], [0.6, 0.1, 0.3]], [[0.1, 0.4, 0.5], [0.3, 0.3, 0.4]]
MATRIX = [[2.0, 0.3, 0.1], [0.3, 1.5, -0.2], [0.1, -0.2, 0.8]]
UNIT = [0.25, 0.5, 0.9]
# name: (class, parameters, value, parameters of another)
CASES = {
    "Normal": (d.Normal, [A, B], [0.1, -2.0, 4.0], [B, A]),
    "LogNormal": (d.LogNormal, [A, B], [0.1, 2.0, 4.0], [B, A]),
    "Uniform": (d.Uniform, [[-1.0, 0.0, 2.0], [1.0, 3.0, 2.5]], [0.5, 1.0, 2.25], [[-2.0, 0.5, 2.0], [1.5, 4.0, 2.5]]),
    "Laplace": (d.Laplace, [A, B], [0.1, -2.0, 4.0], [B, A]),
    "Cauchy": (d.Cauchy, [A, B], [0.1, -2.0, 4.0], None),
    "Gumbel": (d.Gumbel, [A, B], [0.1, -2.0, 4.0], [B, A]),
    "Gamma": (d.Gamma, [A, B], [0.1, 2.0, 4.0], [B, A]),
    "Beta": (d.Beta, [A, B], UNIT, [B, A]),
    "Exponential": (d.Exponential, [A], [0.1, 2.0, 4.0], [B]),
    "StudentT": (d.StudentT, [[0.8, 1.7, 5.0], A, B], [0.1, -2.0, 4.0], None),
    "Bernoulli": (d.Bernoulli, [P], [1.0, 0.0, 1.0], [R]),
    "Categorical": (d.Categorical, [ROWS], [2, 0], [OTHER]),
    "Multinomial": (lambda p: d.Multinomial(5, p), [ROWS], [[1.0, 3.0, 1.0], [5.0, 0.0, 0.0]], None),
    "Binomial": (lambda p: d.Binomial(4, p), [P], [0.0, 3.0, 4.0], [R]),
    "Geometric": (d.Geometric, [P], [0.0, 3.0, 1.0], [R]),
    "Poisson": (d.Poisson, [[0.5, 4.0, 30.0]], [0.0, 3.0, 28.0], [[1.5, 3.0, 33.0]]),
    "Dirichlet": (d.Dirichlet, [[A, B]], [[0.2, 0.5, 0.3], [0.1, 0.1, 0.8]], [[B, A]]),
    "MultivariateNormal": (d.MultivariateNormal, [[A, B], MATRIX], [[0.1, 1.0, -1.0], [2.0, 0.0, 0.5]],
                           [[B, A], [[1.0, 0.1, 0.0], [0.1, 1.2, 0.3], [0.0, 0.3, 0.9]]]),
    "Independent": (lambda a, b: d.Independent(d.Normal(a, b), 1), [A, B], [[0.1, -2.0, 4.0], [1.0, 1.0, 1.0]], [B, A]),
    "TransformedDistribution": (lambda a, b: d.TransformedDistribution(d.Normal(a, b), [
        d.TanhTransform(), d.AffineTransform(1.0, 2.0), d.SigmoidTransform()]), [A, B], [0.3, 0.5, 0.94], None),
    "Softplus": (lambda a, b: d.TransformedDistribution(d.Normal(a, b), [
        d.transforms.SoftplusTransform(), d.ExpTransform(), d.PowerTransform(torch.tensor(2.0))]), [A, B], [1.3, 1.5, 6.0],
        None),
}


def listed(tensor):
    return tensor.detach().flatten().tolist()


def run(make, parameters, value, other):
    leaves = [leaf(each) for each in parameters]
    distribution = make(*leaves)
    log_prob = distribution.log_prob(torch.tensor(value))
    log_prob.sum().backward()
    result = {"batch": list(distribution.batch_shape), "event": list(distribution.event_shape),
              "log_prob": listed(log_prob), "grads": [listed(each.grad) for each in leaves]}
    for name in ["mean", "variance", "stddev"]:
        try:
            result[name] = listed(getattr(distribution, name))
        except NotImplementedError:
            pass
    for name, argument in [("entropy", None), ("cdf", value), ("icdf", UNIT)]:
        try:
            method = getattr(distribution, name)
            result[name] = listed(method() if argument is None else method(torch.tensor(argument)))
        except NotImplementedError:
            pass
    if other is not None:
        result["kl"] = listed(d.kl_divergence(distribution, make(*[torch.tensor(each) for each in other])))
    return result


def numbers(value):
    """NaN and infinities as texts; other floats rounded."""
    if isinstance(value, float):
        return str(value) if value != value or abs(value) == float("inf") else float(f"{value:.10g}")
    if isinstance(value, list):
        return [numbers(each) for each in value]
    if isinstance(value, dict):
        return {name: numbers(each) for name, each in value.items()}
    return value


alphas = torch.tensor([0.1, 0.5, 0.9, 1.0, 2.0, 5.0, 7.9, 8.1, 20.0, 100.0])
draws = torch.tensor([0.05, 0.3, 0.79, 0.81, 1.5, 4.0, 8.0, 19.0, 30.0, 105.0])
alphas, draws = torch.broadcast_tensors(alphas[:, None], draws)
gamma_grad = torch._standard_gamma_grad(alphas.contiguous(), draws.contiguous())
print("{")
for name, case in CASES.items():
    print(f' "{name}": {json.dumps(numbers(run(*case)))},')
print(f' "gamma_grad": {json.dumps(numbers(listed(gamma_grad)))}')
print("}")
