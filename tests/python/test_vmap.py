"""vmap, Jacobians, Hessians."""

import pytest

import hammock as hm
from hammock import nn


def numbers(*shape):
    count = 1
    for size in shape:
        count *= size
    return hm.sin(hm.arange(count).double() * 0.7 + 0.3).reshape(list(shape))


def looped(function, *batches):
    return hm.stack([function(*(batch[i] for batch in batches)) for i in range(batches[0].shape[0])])


def test_dims():
    a, b = numbers(3, 4), numbers(4, 3)
    dot = lambda x, y: (x * y).sum()  # noqa: E731
    assert hm.allclose(hm.vmap(dot, in_dims=(0, 1))(a, b), (a * b.T).sum(1))
    assert hm.allclose(hm.vmap(dot, in_dims=(-2, None))(a, b[:, 0]), a @ b[:, 0])
    assert hm.vmap(lambda x: x * 2, out_dims=1)(a).shape == (4, 3)
    assert hm.vmap(hm.vmap(dot, in_dims=(None, 0)), in_dims=(0, None))(a, b.T).shape == (3, 3)
    assert hm.vmap(lambda x, scale: x * scale, in_dims=(0, None))(a, 3.0).tolist() == (a * 3).tolist()
    assert hm.vmap(lambda x, y: x + y)(a, y=a).tolist() == (a * 2).tolist()


def test_nested_arguments_and_results():
    a, b = numbers(3, 4), numbers(4, 3)

    def function(pair, scale):
        return {"sum": pair["a"].sum() + pair["b"][0].sum(), "both": (pair["a"], [pair["b"][0] * scale])}

    dims = ({"a": 0, "b": [1]}, None)
    result = hm.vmap(function, in_dims=dims, out_dims={"sum": 0, "both": (1, [0])})({"a": a, "b": [b]}, 2)
    assert hm.allclose(result["sum"], a.sum(1) + b.sum(0))
    assert result["both"][0].shape == (4, 3) and hm.allclose(result["both"][1][0], b.T * 2)
    shared = hm.vmap(lambda pair: (pair[0] * pair[1], pair[1]), in_dims=((0, None),), out_dims=(0, None))((a, b[:, 0]))
    assert shared[0].shape == (3, 4) and shared[1].shape == (4,)


def test_gradients_of_each_sample_of_a_network():
    net = nn.Sequential(nn.Conv2d(1, 2, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(8, 3))
    params = {name: value.detach() for name, value in net.named_parameters()}

    def loss(params, image, label):
        scores = nn.functional_call(net, params, image.unsqueeze(0))
        return hm.cross_entropy(scores, label.unsqueeze(0))

    images, labels = hm.randn(5, 1, 4, 4), hm.arange(5) % 3
    each = hm.vmap(hm.grad(loss), in_dims=(None, 0, 0))(params, images, labels)
    for i in range(5):
        one = hm.grad(loss)(params, images[i], labels[i])
        for name in params:
            assert hm.allclose(each[name][i], one[name], atol=1e-5)
    assert all(value.grad is None for value in net.parameters())


def test_ensembles_train():
    models = [nn.Linear(3, 1) for _ in range(4)]
    params, buffers = nn.stack_module_state(models)
    x, y = hm.randn(16, 3), hm.randn(16, 1)

    def loss(params):
        return ((nn.functional_call(models[0], params, x) - y) ** 2).mean()

    losses = hm.vmap(loss)(params)
    losses.sum().backward()
    assert not buffers and losses.shape == (4,)
    for i, model in enumerate(models):
        ((model(x) - y) ** 2).mean().backward()
        assert hm.allclose(params["weight"].grad[i], model.weight.grad, atol=1e-5)
    with pytest.raises(ValueError, match="no parameter or buffer 'w'"):
        nn.functional_call(models[0], {"w": x}, x)


def test_attention_without_dropout_draws_nothing():
    attention = nn.MultiheadAttention(8, 2)
    x = hm.randn(3, 5, 2, 8)
    for weights in (True, False):
        one = lambda s: attention(s, s, s, need_weights=weights)[0]  # noqa: E731
        assert hm.allclose(hm.vmap(one)(x), looped(one, x), atol=1e-5)


def test_gradients_through():
    w = numbers(4).requires_grad_()
    x = numbers(3, 4).requires_grad_()
    y = hm.vmap(lambda row: (row * w).sin().sum())(x)
    gx, gw = hm.grad(y.sum(), [x, w])
    assert hm.allclose(gx, (x * w).cos() * w) and hm.allclose(gw, ((x * w).cos() * x).sum(0))


def test_custom_functions_inside():
    class Square(hm.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        def backward(ctx, grad):
            x, = ctx.saved_tensors
            return 2 * x * grad

    x = numbers(3)
    assert hm.allclose(hm.vmap(hm.grad(Square.apply))(x), 2 * x)


def test_jacobians():
    w, x = numbers(3, 4), numbers(4)
    for jacobian in (hm.jacrev, hm.jacfwd):
        assert hm.allclose(jacobian(lambda x: (w @ x).sin())(x), (w @ x).cos()[:, None] * w)
        nested = jacobian(lambda p, s: {"y": p["a"] * p["b"].sum() * s})({"a": x, "b": w}, 2.0)
        assert nested["y"]["a"].shape == (4, 4) and nested["y"]["b"].shape == (4, 3, 4)
        both = jacobian(lambda a, b: a * b, argnums=(0, 1))(x, x + 1)
        assert hm.allclose(both[0], hm.diag(x + 1)) and hm.allclose(both[1], hm.diag(x))
        assert jacobian(lambda x: hm.ones(2).double())(x).tolist() == hm.zeros(2, 4).tolist()
        assert hm.allclose(jacobian(lambda x: x * x, chunk_size=3)(x), hm.diag(2 * x))
    value, aux = hm.jacrev(lambda x: (x * 2, x.sum()), has_aux=True)(x)
    assert hm.allclose(value, hm.eye(4).double() * 2) and hm.allclose(aux, x.sum())
    with pytest.raises(TypeError):
        hm.jacrev(lambda x: 1.0)(x)


def test_hessian_of_logistic_regression():
    x, y, w = numbers(6, 3), (numbers(6) > 0).double(), numbers(3)
    loss = lambda w: hm.binary_cross_entropy_with_logits(x @ w, y, reduction="sum")  # noqa: E731
    p = (x @ w).sigmoid()
    assert hm.allclose(hm.hessian(loss)(w), x.T @ ((p * (1 - p))[:, None] * x))
    nested = hm.hessian(lambda p: (p["a"] ** 2).sum() * p["b"])({"a": w, "b": hm.tensor(2.0).double()})
    assert hm.allclose(nested["a"]["a"], 4 * hm.eye(3).double()) and hm.allclose(nested["a"]["b"], 2 * w)
    assert hm.allclose(hm.vmap(hm.hessian(lambda w: (w**3).sum()))(numbers(2, 3))[1], hm.diag(6 * numbers(2, 3)[1]))


def test_random():
    x = hm.ones(4, 32)
    noisy = lambda row: hm.dropout(row, 0.5, True)  # noqa: E731
    with pytest.raises(ValueError, match="random"):
        hm.vmap(noisy)(x)
    hm.manual_seed(1)
    different = hm.vmap(noisy, randomness="different")(x)
    hm.manual_seed(1)
    assert different.tolist() == looped(noisy, x).tolist()
    same = hm.vmap(noisy, randomness="same")(x)
    assert same[0].tolist() == same[3].tolist() != different[1].tolist()
    with pytest.raises(ValueError, match="randomness must be"):
        hm.vmap(noisy, randomness="any")(x)


def test_compiled():
    step = hm.compile(lambda x: hm.vmap(lambda row: row.exp().sum())(x))
    x = numbers(3, 4)
    for _ in range(3):
        assert hm.allclose(step(x), x.exp().sum(1))
    assert step.traces == 1


def test_errors():
    x = hm.ones(3, 2)
    double = lambda x: x * 2  # noqa: E731
    for function, error, text in [
        (lambda: hm.vmap(double, in_dims=2)(x), IndexError, "dim 2 for argument 0"),
        (lambda: hm.vmap(double, in_dims=(0, 0))(x), ValueError, "2 entries for 1 arguments"),
        (lambda: hm.vmap(double, in_dims=None)(x), ValueError, "names no dim"),
        (lambda: hm.vmap(double, in_dims="0")(x), TypeError, "needs an int or None"),
        (lambda: hm.vmap(double, in_dims=({"a": 0},))(x), ValueError, "not nested as argument 0"),
        (lambda: hm.vmap(double, in_dims=({"a": 0},))({"b": x}), ValueError, "no entry 'b'"),
        (lambda: hm.vmap(double)(3.0), TypeError, "no tensor: 3.0; use None"),
        (lambda: hm.vmap(double)(), ValueError, "without arguments"),
        (lambda: hm.vmap(double, out_dims=(0, 1))(x), TypeError, "out_dims"),
        (lambda: hm.vmap(lambda a, b: a + b)(x, hm.ones(4)), ValueError, "numbers of samples differ: 3 in argument 0"),
        (lambda: hm.vmap(lambda x: 1.0)(x), TypeError, "must return tensors, nested or not, not float"),
        (lambda: hm.vmap(lambda x: x.sum().item())(x), ValueError, "is read"),
        (lambda: hm.vmap(lambda x: x if x.sum() > 0 else -x)(x), ValueError, "is read"),
        (lambda: hm.vmap(hm.nonzero)(x), ValueError, "is read"),
    ]:
        with pytest.raises(error, match=text) as raised:
            function()
        # Errors of arguments that Python code raises have its traceback.
        assert "test_vmap.py" in getattr(raised.value, "where", "test_vmap.py"), text
        assert hasattr(raised.value, "where") or text != "is read"
