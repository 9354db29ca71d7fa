"""Gradients."""

import gc
import weakref

import pytest

import hammock as hm


def test_backward_accumulates():
    w = hm.tensor([1.0, 2.0], requires_grad=True)
    for k in (1, 2):
        (w * w).sum().backward()
        assert w.grad.tolist() == [2 * k, 4 * k]
    w.grad = None
    assert w.grad is None and w.is_leaf and not (w * 2).is_leaf
    w.grad = hm.ones(2)
    assert w.grad.tolist() == [1, 1]
    with pytest.raises(ValueError):
        (w * 2).backward()
    (w * 2).backward(hm.ones(2))
    assert w.grad.tolist() == [3, 3]
    with pytest.raises(TypeError):
        w.grad = 3


def test_no_grad_is_a_context_and_a_decorator():
    w = hm.ones(1).requires_grad_()
    with hm.no_grad():
        assert not (w * 2).requires_grad and not hm.is_grad_enabled()
        with hm.enable_grad():
            assert (w * 2).requires_grad

    @hm.no_grad()
    def f():
        return (w * 2).requires_grad

    @hm.no_grad
    def g():
        """doc"""
        return (w * 2).requires_grad

    @hm.no_grad()
    def rows():
        yield (w * 2).requires_grad

    assert not f() and not g() and g.__doc__ == "doc" and list(rows()) == [False] and hm.is_grad_enabled()
    try:
        with hm.no_grad():
            raise KeyError
    except KeyError:
        pass
    assert hm.is_grad_enabled()


def test_grad_of_functions():
    x = hm.tensor([1.0, 2.0])
    assert hm.grad(lambda x: (x**3).sum())(x).tolist() == [3, 12]
    value, grads = hm.value_and_grad(lambda p: p["w"].sum() * p["b"][0])({"w": x, "b": [hm.tensor(3.0)]})
    assert value.item() == 9 and grads["w"].tolist() == [3, 3] and grads["b"][0].item() == 3
    a, b = hm.grad(lambda a, b: (a * b).sum(), argnums=(0, 1))(x, x + 1)
    assert a.tolist() == [2, 3] and b.tolist() == [1, 2]
    gradient, aux = hm.grad(lambda x: (x.sum(), x * 2), has_aux=True)(x)
    assert gradient.tolist() == [1, 1] and aux.tolist() == [2, 4]
    assert hm.grad(hm.grad(lambda x: x**3))(hm.tensor(2.0)).item() == 12
    assert hm.grad(lambda x: hm.ones(1).sum())(x).tolist() == [0, 0]
    for bad in (lambda x: x, lambda x: 1.0):
        with pytest.raises(TypeError):
            hm.grad(bad)(x)
    with pytest.raises(TypeError):
        hm.grad(lambda x: x)(1.0)
    with pytest.raises(ValueError):
        hm.grad(lambda x: x.sum(), argnums=3)(x)


def test_grad_of_tensors():
    w = hm.tensor([1.0, 2.0], requires_grad=True)
    gradient, = hm.grad((w * w).sum(), w)
    assert gradient.tolist() == [2, 4] and w.grad is None


def test_vjp_jvp_jacobians():
    x = hm.tensor([1.0, 2.0])
    y, pull = hm.vjp(lambda x: x * x, x)
    assert y.tolist() == [1, 4] and pull(hm.tensor([1.0, 10.0]))[0].tolist() == [2, 40]
    y, d = hm.jvp(lambda x: x * x, (x,), (hm.tensor([1.0, 10.0]),))
    assert y.tolist() == [1, 4] and d.tolist() == [2, 40]
    for jacobian in (hm.jacrev, hm.jacfwd):
        assert jacobian(lambda x: x * x)(x).tolist() == [[2, 0], [0, 4]]
    assert hm.hessian(lambda x: (x**3).sum())(x).tolist() == [[6, 0], [0, 12]]


def test_custom_functions():
    class Cube(hm.Function):
        @staticmethod
        def forward(ctx, x, factor):
            y = x * x * x * factor
            ctx.save_for_backward(x, y)
            ctx.factor = factor
            return y

        @staticmethod
        def backward(ctx, grad):
            x, y = ctx.saved_tensors
            return 3 * x * x * grad * ctx.factor, None

    w = hm.tensor([2.0], requires_grad=True)
    Cube.apply(w, 2).sum().backward()
    assert w.grad.tolist() == [24]

    class Bad(hm.Function):
        forward = staticmethod(lambda ctx, x: x * 2)

        @staticmethod
        def backward(ctx, grad):
            raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        Bad.apply(w).sum().backward()
    assert (w * 2).tolist() == [4]


def test_custom_functions_are_freed():
    class Twice(hm.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.big = big
            y = x * 2
            ctx.save_for_backward(y)
            return y

        @staticmethod
        def backward(ctx, grad):
            return grad * 2

    class Big:
        pass

    big = Big()
    gone = weakref.ref(big)
    w = hm.tensor([2.0], requires_grad=True)
    y = Twice.apply(w)
    del big, y
    for _ in range(3):
        gc.collect()
        (hm.ones(1) + 1).tolist()
    assert gone() is None


def test_hooks():
    w = hm.tensor([1.0], requires_grad=True)
    seen = []
    handle = w.register_hook(lambda grad: seen.append(grad.item()))
    w.register_hook(lambda grad: grad * 10)
    (w * 3).sum().backward()
    assert seen == [3] and w.grad.tolist() == [30]
    handle.remove()
    (w * 3).sum().backward()
    assert seen == [3]
    w.register_hook(lambda grad: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        (w * 3).sum().backward()


def test_checkpoint_and_autocast():
    w = hm.tensor([2.0], requires_grad=True)
    hm.checkpoint(lambda x: x.sin() * w, w).sum().backward()
    assert w.grad is not None
    with hm.autocast(hm.bfloat16):
        assert (hm.ones(2, 2) @ hm.ones(2, 2)).dtype is hm.bfloat16
    assert (hm.ones(2, 2) @ hm.ones(2, 2)).dtype is hm.float32
    with pytest.raises(ValueError):
        with hm.autocast(hm.int8):
            pass


def test_transforms_name_themselves_in_errors():
    for transform in ("grad", "jacrev", "jacfwd"):
        with pytest.raises(ValueError, match=f"{transform}: there is no argument 3 among 1"):
            getattr(hm, transform)(lambda x: x.sum(), argnums=3)(hm.ones(2))
        with pytest.raises(TypeError, match=f"{transform}: differentiates tensors, not str"):
            getattr(hm, transform)(lambda x: x)("a")


def test_transforms_take_nested_arguments():
    x, y = hm.tensor([1.0, 2.0]), hm.tensor(3.0)
    arguments = ({"x": x, "rest": [y, None]}, (x + 1,))

    def f(named, others):
        return {"product": named["x"] * named["rest"][0], "sum": (others[0].sum(), named["x"].sum())}

    results, pull_back = hm.vjp(f, *arguments)
    assert results["product"].tolist() == [3, 6] and results["sum"][0].item() == 5
    named, (others,) = pull_back({"product": hm.ones(2), "sum": (hm.tensor(10.0), hm.tensor(100.0))})
    assert named["x"].tolist() == [103, 103] and named["rest"][0].item() == 3 and named["rest"][1] is None
    assert others.tolist() == [10, 10]

    tangents = ({"x": hm.tensor([1.0, 0.0]), "rest": [hm.tensor(10.0), None]}, (hm.ones(2),))
    results, derivatives = hm.jvp(f, arguments, tangents)
    assert results["product"].tolist() == [3, 6]
    assert derivatives["product"].tolist() == [13, 20] and [d.item() for d in derivatives["sum"]] == [2, 1]

    w = hm.tensor([2.0, 3.0], requires_grad=True)
    again = hm.checkpoint(lambda named, scale, *rest: {"y": [named["w"] * named["b"].exp() * scale + rest[0][0]]},
                          {"w": w, "b": hm.zeros(2)}, 5.0, (hm.ones(2),))
    again["y"][0].sum().backward()
    assert again["y"][0].tolist() == [11, 16] and w.grad.tolist() == [5, 5]


class CubeFunction(hm.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x * x

    @staticmethod
    def backward(ctx, grad):
        x, = ctx.saved_tensors
        return 3 * x * x * grad


class CubeOp(hm.CustomOp):
    def infer(x):
        return x.shape, x.dtype

    def forward(x):
        return x ** 3

    def backward(inputs, outputs, grad):
        return 3 * inputs[0] * inputs[0] * grad


@pytest.mark.parametrize("cube", [CubeFunction.apply, CubeOp.apply])
def test_gradients_of_gradients_of_custom_functions(cube):
    x = hm.tensor([2.0, 3.0], requires_grad=True)
    first, = hm.grad(cube(x).sum(), x, create_graph=True)
    second, = hm.grad(first.sum(), x, create_graph=True)
    third, = hm.grad(second.sum(), x, retain_graph=True)
    assert first.tolist() == [12, 27] and second.tolist() == [12, 18] and third.tolist() == [6, 6]
    assert hm.grad(hm.grad(lambda x: cube(x).sum()))(hm.tensor(2.0)).item() == 12
    first.sum().backward()
    assert x.grad.tolist() == [12, 18]
