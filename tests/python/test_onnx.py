"""ONNX files in Python, beside PyPI's onnx and onnxruntime where they are installed."""

import os
import pathlib
import re
import subprocess
import sys

import numpy as np
import pytest

import hammock as hm

DATA = pathlib.Path(__file__).parent.parent / "onnx" / "data"
MODELS = pathlib.Path(__file__).parent.parent.parent.parent / "shared" / "suites" / "models"
pytestmark = pytest.mark.skipif(bool(hm._hammock.onnx_why_absent()), reason="there is no plug-in for ONNX files")


def test_a_file_is_a_program():
    program = hm.onnx.load(DATA / "linear.onnx")
    assert hm.onnx.inputs(program) == [("x", "float", ("batch", 4))]
    assert [name for name, _, _ in hm.onnx.outputs(program)] == ["y"]
    assert program(hm.ones(2, 4)).detach().numpy().tolist() == [[23.0, 0.0, 30.0]] * 2
    again = hm.onnx.load((DATA / "linear.onnx").read_bytes())
    assert again(hm.ones(1, 4)).shape == (1, 3)


def test_its_parameters_learn():
    program = hm.onnx.load(DATA / "linear.onnx")
    parameters = program.named_parameters()
    assert list(parameters) == ["fc.weight", "fc.bias"]
    optimizer = hm.optim.SGD(list(parameters.values()), lr=0.2)
    x, target = hm.ones(1, 4), hm.tensor([[1.0, 0.0, 2.0]])
    losses = []
    for _ in range(20):
        optimizer.zero_grad()
        loss = ((program(x) - target) ** 2).mean()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < 0.05 * losses[0]


def test_it_is_written_back(tmp_path):
    program = hm.onnx.load(DATA / "linear.onnx")
    hm.onnx.trace(program)
    hm.onnx.save(program, tmp_path / "again.onnx")
    again = hm.onnx.load(tmp_path / "again.onnx")
    x = hm.randn(5, 4)
    assert hm.allclose(again(x), program(x))
    assert hm.onnx.inputs(again) == hm.onnx.inputs(program)


def test_errors_name_what_is_wrong(tmp_path):
    with pytest.raises(ValueError, match="no ONNX file"):
        hm.onnx.load(b"\x08\xff\xff")
    with pytest.raises(TypeError, match="input 'x'"):
        hm.onnx.load(DATA / "linear.onnx")(hm.ones(2, 4, dtype=hm.float64))
    with pytest.raises(ValueError, match="no input 'z' to fix"):
        hm.onnx.load(DATA / "linear.onnx", fixed={"z": 1})
    assert ("", "Conv", 1) in [row[:3] for row in hm.onnx.operators()]


BESIDE = """
import sys, numpy
order, model = sys.argv[1].split(","), sys.argv[2]
for name in order:
    globals()[name] = __import__(name)
x = numpy.ones((2, 4), numpy.float32)
session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
program = hammock.onnx.load(model)
onnx.checker.check_model(onnx.load(model))
numpy.testing.assert_allclose(program(hammock.asarray(x)).detach().numpy(), session.run(None, {"x": x})[0])
hammock.onnx.trace(program)
"""


@pytest.mark.parametrize("order", ["onnx,onnxruntime,hammock", "hammock,onnxruntime,onnx"])
def test_other_libraries_of_onnx_live_in_the_process(order):
    pytest.importorskip("onnx")
    pytest.importorskip("onnxruntime")
    subprocess.run([sys.executable, "-c", BESIDE, order, str(DATA / "linear.onnx")], check=True)


@pytest.mark.parametrize("device", ["reference", "cpu"])
def test_all_node_cases_of_onnx(device):
    onnx = pytest.importorskip("onnx")
    suite = os.environ.get("ONNX_SUITE", "")
    if not onnx.__version__.startswith("1.22.") or not os.path.exists(suite):
        pytest.skip("the list is for onnx 1.22")
    if device not in [str(each).split(":")[0] for each in hm.devices()]:
        pytest.skip(f"there is no device {device}")
    cases = pathlib.Path(onnx.__file__).parent / "backend" / "test" / "data" / "node"
    done = subprocess.run([suite, str(cases), "--device", device, "--known", str(DATA.parent / "known_failures.txt")],
                          capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert float(re.search(r"cases pass \(([0-9.]+)%\)", done.stdout)[1]) > 98.5


def suite_program():
    suite = os.environ.get("ONNX_SUITE", "")
    if not os.path.exists(suite):
        pytest.skip("there is no hammock-onnx-suite")
    return suite


@pytest.mark.skipif(not MODELS.exists(), reason="the models lie beside the checkout")
@pytest.mark.parametrize("form", [[], ["--free"]], ids=["fixed", "free"])
def test_onnx_runtime_runs_what_is_written(form, tmp_path):
    pytest.importorskip("onnxruntime")
    subprocess.run([suite_program(), str(MODELS), "--atol", "1e-5", "--save", str(tmp_path), *form], check=True)
    subprocess.run([sys.executable, "-B", str(DATA.parent / "runtime_judge.py"), str(tmp_path), str(MODELS)], check=True)


@pytest.mark.skipif(not MODELS.exists(), reason="the models lie beside the checkout")
@pytest.mark.parametrize("form", ["operators", "qdq"])
def test_quantised_models_give_what_onnx_runtime_gives(form, tmp_path):
    pytest.importorskip("onnxruntime")
    pytest.importorskip("sympy")
    suite, script = suite_program(), DATA.parent.parent.parent / "bench" / "onnx" / "quantize.py"
    subprocess.run([sys.executable, "-B", str(script), str(MODELS / "face_landmark"), str(tmp_path / "face_landmark"),
                    "--format", form], check=True)
    subprocess.run([suite, str(tmp_path), "--atol", "1e-5", "--device", "cpu"], check=True)


class Recurrent(hm.nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm = hm.nn.LSTM(4, 6, num_layers=2, bidirectional=True, batch_first=True)

    def forward(self, x):
        y, (h, c) = self.lstm(x)
        return y, h, c


class Attentive(hm.nn.Module):
    def __init__(self):
        super().__init__()
        self.attention = hm.nn.MultiheadAttention(8, 2, batch_first=True)
        self.norm = hm.nn.LayerNorm(8)

    def forward(self, x):
        return self.norm(x + self.attention(x, x, x, need_weights=False)[0])


def convolutional():
    net = hm.nn.Sequential(hm.nn.Conv2d(3, 8, 3, stride=2, padding=1), hm.nn.BatchNorm2d(8), hm.nn.GELU(), hm.nn.MaxPool2d(2),
                           hm.nn.Flatten(), hm.nn.Linear(32, 5), hm.nn.LogSoftmax(-1))
    net(hm.randn(16, 3, 8, 8))  # running statistics
    return net.eval()


def quantised(dtype, **options):
    net = hm.nn.Sequential(hm.nn.Linear(16, 32), hm.nn.ReLU(), hm.nn.Linear(32, 4))
    calibration = hm.nn.Calibration(net) if dtype is None else None
    net(hm.randn(64, 16))
    assert len(hm.nn.quantize_(net, dtype or hm.int8, calibration=calibration, **options)) == 2
    return net


def moved(x):
    order = hm.argsort(x, 1)
    sums = hm.zeros(3, 8).scatter_add(1, order, x)
    return hm.sort(x, 1, descending=True)[0], order, sums, hm.cumsum(x, 0), hm.topk(x, 3, 1)[0]


def spectrum(x):
    return hm.view_as_real(hm.stft(x, 8, hop_length=4, center=False, return_complex=True))


# What makes a module or function, the sizes of its input, the first opset.
WRITTEN = {
    "convolutions": (convolutional, (2, 3, 8, 8), 14),
    "lstm": (Recurrent, (2, 5, 4), 14),
    "attention": (Attentive, (2, 5, 8), 14),
    "bytes": (lambda: quantised(hm.int8), (3, 16), 14),
    "four bits": (lambda: quantised(hm.int4, group=8), (3, 16), 21),
    "calibrated": (lambda: quantised(None), (3, 16), 14),
    "sorts": (lambda: moved, (3, 8), 16),
    "spectrum": (lambda: spectrum, (2, 32), 17),
}


@pytest.mark.parametrize("name", WRITTEN)
def test_onnx_runtime_judges_modules(name, tmp_path):
    onnx = pytest.importorskip("onnx")
    runtime = pytest.importorskip("onnxruntime")
    make, sizes, first = WRITTEN[name]
    hm.manual_seed(3)
    with hm.no_grad():
        function, x = make(), hm.randn(*sizes)
        program = hm.jit.trace(function, x)
        expected = function(x)
    expected = [y.numpy() for y in (expected if isinstance(expected, tuple) else [expected])]
    path = str(tmp_path / "model.onnx")
    for opset in [each for each in (14, 17, 18, 20, 21, 24, 26) if each >= first]:
        hm.onnx.save(program, path, opset=opset)
        onnx.checker.check_model(path, full_check=True)
        session = runtime.InferenceSession(path, providers=["CPUExecutionProvider"])
        results = session.run(None, {session.get_inputs()[0].name: x.numpy()})
        for result, y in zip(results, expected, strict=True):
            np.testing.assert_allclose(result, y, rtol=1e-4, atol=1e-5, err_msg=f"opset {opset}")


@pytest.mark.skipif(not MODELS.exists(), reason="the models lie beside the checkout")
def test_a_real_model():
    program = hm.onnx.load(MODELS / "mnist_cntk" / "model.onnx")
    scores = program(hm.zeros(1, 1, 28, 28)).detach()
    assert scores.shape == (1, 10) and np.isfinite(scores.numpy()).all()
