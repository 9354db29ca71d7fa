"""Programs, delegates and custom ops that are Python classes."""

import threading

import numpy as np
import pytest

import hammock as hm
from hammock import jit, nn


def net():
    hm.manual_seed(1)
    return nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2))


class ByNumpy:
    """Runs graphs of a few ops by NumPy, from text alone."""

    seen = []

    def preprocess(program, spec):
        ByNumpy.seen.append((sorted(spec), [node[0] for node in program.nodes()]))
        return {method: {"program": program.graph_text(method)} for method in spec}

    def compile(self, processed, spec):
        return {method: (method, processed[method]["program"]) for method in spec}

    def execute(self, handle, inputs):
        assert handle[0] == "forward" and "tanh" in handle[1]
        x = inputs[0].numpy()
        w0, b0, w1, b1 = [each.numpy() for each in inputs[1:]] if len(inputs) > 1 else ByNumpy.weights
        return [hm.tensor(np.tanh(x @ w0.T + b0) @ w1.T + b1)]


def test_programs_keep_names_lines_and_free_sizes(tmp_path):
    model = net()
    program = jit.trace(model, hm.randn(5, 3), free_dims=[(0, 0)])
    x = hm.randn(7, 3)
    assert hm.allclose(program(x), model(x), atol=1e-6)
    assert list(program.state_dict()) == list(model.state_dict()) and program.methods() == ["forward"]
    assert "0.weight" in program.inputs() and 0 in program.inputs()
    assert "tanh" in program.graph_text() and {"input", "tanh"} <= {node[0] for node in program.nodes()}
    program.save(str(tmp_path / "net.hmk"))
    again = jit.load(tmp_path / "net.hmk")
    assert hm.allclose(again(x), model(x), atol=1e-6)
    with pytest.raises(ValueError):
        program.run_method("backward", x)
    with pytest.raises(TypeError):
        program(object())


def test_graphs_can_be_interpreted_node_by_node():
    program = jit.trace(lambda x, y: (x * y + 1).tanh(), hm.ones(2), hm.ones(2))
    functions = {"mul": np.multiply, "add": np.add, "tanh": np.tanh}

    def run(op, operands, attributes):
        return [attributes["value"] if op == "constant" else functions[op](*operands)]

    x, y = np.float32([1, 2]), np.float32([3, 4])
    np.testing.assert_allclose(jit.interpret(program, [x, y], run)[0], np.tanh(x * y + 1), rtol=1e-6)


def test_a_python_class_is_a_delegate():
    model = net()
    ByNumpy.weights = [value.detach().numpy() for value in model.state_dict().values()]
    jit.register_backend("by_numpy", ByNumpy)
    program = jit.trace(model, hm.randn(2, 3))
    lowered = jit.to_backend("by_numpy", program, {"forward": {"level": 2}})
    assert ByNumpy.seen == [(["forward"], [node[0] for node in program.nodes()])]
    x = hm.randn(2, 3)
    expected = model(x).detach().numpy()
    results = []
    threads = [threading.Thread(target=lambda: results.append(lowered(x).numpy())) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for result in results + [lowered(x).numpy()]:
        np.testing.assert_allclose(result, expected, atol=1e-5)
    assert len(results) == 3


def test_wrong_delegates_are_errors():
    with pytest.raises(TypeError, match="has no execute"):
        jit.register_backend("half", type("Half", (), {"preprocess": print, "compile": print}))

    class Failing:
        def preprocess(program, spec):
            return "text"

        def compile(self, processed, spec):
            assert processed == "text"
            return {method: object() for method in spec}

        def execute(self, handle, inputs):
            raise RuntimeError("out of order")

    jit.register_backend("failing", Failing)
    with pytest.raises(ValueError):
        jit.register_backend("failing", Failing)
    program = jit.trace(lambda x: x + 1, hm.ones(2))
    lowered = jit.to_backend("failing", program)
    with pytest.raises(hm.HammockError, match="out of order"):
        lowered(hm.ones(2)).tolist()
    with pytest.raises(ValueError):
        jit.to_backend("nobody", program)
    with pytest.raises(TypeError, match="takes a program"):
        jit.to_backend("failing", lambda x: x)
    with pytest.raises(TypeError, match="must be a dict"):
        jit.to_backend("failing", program, ["forward"])


class SortedAbs(hm.CustomOp):
    def infer(x):
        return [(x.shape, x.dtype), (x.shape[:1], hm.int64)]

    def forward(x):
        return np.sort(np.abs(x), -1), np.argmax(x, -1)


def test_a_python_class_is_an_op():
    x = hm.tensor([[3.0, -1.0], [0.0, -5.0]])
    values, places = SortedAbs.apply(x * 1)
    assert "pending" in values.summary()
    assert (values + 1).tolist() == [[2, 4], [1, 6]] and places.tolist() == [0, 0]
    step = hm.compile(lambda x: SortedAbs.apply(x)[0].sum())
    assert [step(x * i).item() for i in range(3)] == [0, 9, 18] and step.traces == 1


def test_errors_of_custom_ops_come_with_the_value():
    class Wrong(hm.CustomOp):
        def infer(x):
            return x.shape, x.dtype

        def forward(x):
            raise KeyError("nothing here")

    class OtherShape(Wrong):
        def forward(x):
            return x[:1]

    bad = Wrong.apply(hm.ones(2))
    with pytest.raises(hm.HammockError, match="nothing here"):
        bad.tolist()
    with pytest.raises(hm.HammockError):
        OtherShape.apply(hm.ones(2)).tolist()
    with pytest.raises(TypeError, match="needs infer and forward"):
        type("Empty", (hm.CustomOp,), {}).apply(hm.ones(2))
    with pytest.raises(TypeError, match="takes tensors"):
        Wrong.apply(2)
    assert hm.ones(2).tolist() == [1, 1]


def test_complex_numbers_go_by_dlpack():
    z = np.array([[1 + 2j, 3], [4j, 5]])
    assert hm.from_dlpack(z.T).tolist() == z.T.tolist() and hm.from_dlpack(z).dtype is hm.complex128
    assert np.from_dlpack(hm.tensor([1j, 2])).tolist() == [1j, 2]
    torch = pytest.importorskip("torch")
    assert hm.from_torch(torch.tensor([1j])).tolist() == [1j] and hm.to_torch(hm.tensor([2j])).tolist() == [2j]
