"""Modules against values of PyTorch's, which tests/nn/pytorch.py and modules.py have written: outputs, keys, buffers, gradients."""

import copy
import json
import pathlib
import re

import module_cases
import numpy as np
import pytest

import hammock as hm
from hammock import nn
from hammock.nn.utils import parametrizations, parametrize

ROOT = pathlib.Path(__file__).resolve().parents[2]
PYTORCH = json.loads((ROOT / "tests" / "nn" / "pytorch.json").read_text())
MODULES = json.loads((ROOT / "tests" / "nn" / "modules.json").read_text())


def values(shape, seed, scale=1.0):
    return hm.tensor(module_cases.numbers(shape, seed, scale), dtype=hm.float64).reshape(list(shape))


def tensor(items):
    made = hm.tensor(items)
    return made.to(hm.float64) if made.dtype.is_floating_point else made


def fill(module):
    with hm.no_grad():
        for number, (name, entry) in enumerate(module.state_dict().items()):
            if entry.dtype.is_floating_point:
                entry.copy_(values(entry.shape, number + 1))
                if name.endswith("running_var"):
                    entry.abs_().add_(0.5)


def tensors(value):
    if isinstance(value, hm.Tensor):
        return [value]
    return [] if value is None else [each for part in value for each in tensors(part)]


def check(actual, expected, what):
    np.testing.assert_allclose(np.asarray(actual.detach()).reshape(-1), np.array(expected, dtype=float).reshape(-1), rtol=1e-7, atol=1e-8,
                               err_msg=what)


def check_outputs(outputs, expected):
    assert [list(output.shape) for output in outputs] == [each["shape"] for each in expected]
    for output, each in zip(outputs, expected):
        check(output, each["values"], "output")


def keys(module):
    return [[name, list(entry.shape)] for name, entry in module.state_dict().items()]


@pytest.mark.parametrize("name", PYTORCH["layers"])
def test_layers_have_pytorchs_state_and_values(name):
    module, shapes = module_cases.layers(nn)[name]
    expected = PYTORCH["layers"][name]
    module.to(hm.float64)
    fill(module)
    assert keys(module) == expected["keys"]
    if shapes[0] == "ints":
        inputs = [hm.arange(6).reshape(list(shapes[1])) * 2 % shapes[2]]
    else:
        inputs = [values(shape, 100 + i, 2.0) for i, shape in enumerate(shapes)]
    check_outputs(tensors(module(*inputs)), expected["outputs"])
    for buffer, entry in module.named_buffers():
        check(entry, expected["buffers"][buffer], buffer)


def test_functions_have_pytorchs_values():
    functions = module_cases.functions(nn)
    for name, expected in PYTORCH["unary"].items():
        check_outputs([functions[name](values(module_cases.IMAGE, 7, 6.0))], [expected])


def test_losses_have_pytorchs_values():
    losses = module_cases.losses(nn, tensor, values)
    for name, expected in PYTORCH["losses"].items():
        check(losses[name], expected, name)


def cases():
    samples = lambda *shape: values(shape, 50) + 0.5  # noqa: E731
    unary = {name: (module, [shape]) for name, (module, shape) in module_cases.unary(nn, samples).items()}
    return {"unary": (unary, 7), "modules": (module_cases.composed(nn, tensor), 100)}


@pytest.mark.parametrize("kind, name", [(kind, name) for kind, (table, _) in cases().items() for name in table])
def test_modules_have_pytorchs_gradients(kind, name):
    table, seed = cases()[kind]
    module, shapes = table[name]
    expected = MODULES[kind][name]
    inner = getattr(module, "module", None)
    if inner is not None:
        inner.to(hm.float64)
        fill(inner)
    inputs = [values(shape, seed + i, 2.0).requires_grad_() for i, shape in enumerate(shapes)]
    outputs = tensors(module(*inputs))
    check_outputs(outputs, expected["outputs"])
    sum((output * values(output.shape, 200 + i)).sum() for i, output in enumerate(outputs)).backward()
    for i, given in enumerate(inputs):
        check(given.grad, expected["input_grads"][i], f"gradient of input {i}")
    if inner is not None:
        assert keys(inner) == expected["keys"]
        for parameter, entry in inner.named_parameters():
            check(entry.grad, expected["grads"][parameter], parameter)


# Parts of others, which no program makes, and a deprecated name.
ABSENT = {"NLLLoss2d", "RNNBase", "RNNCellBase", "CrossMapLRN2d"}


def test_every_module_of_cpp_is_here():
    names = re.findall(r"^\| (\w+) \| `nn::", (ROOT / "docs" / "nn-modules.md").read_text(), re.M)
    assert len(names) > 140
    assert {name for name in names if not hasattr(nn, name)} == ABSENT


def test_parametrisations_are_taken_away_again():
    layer = nn.Linear(3, 2)
    before = layer.weight.tolist()
    parametrizations.weight_norm(layer)
    assert isinstance(layer, nn.Linear) and parametrize.is_parametrized(layer, "weight") and "weight" not in layer._parameters
    np.testing.assert_allclose(layer.weight.tolist(), before, rtol=1e-6)
    layer(hm.ones(1, 3)).sum().backward()
    assert layer.parametrizations.weight.original0.grad is not None
    parametrize.remove_parametrizations(layer, "weight")
    assert type(layer) is nn.Linear and isinstance(layer.weight, nn.Parameter) and not parametrize.is_parametrized(layer)
    np.testing.assert_allclose(layer.weight.tolist(), before, rtol=1e-6)


class Twice(nn.Module):
    def forward(self, x):
        return 2 * x


def test_parametrisations_of_a_copy_are_its_own():
    layer = parametrizations.weight_norm(nn.Linear(3, 2))
    one, other = copy.deepcopy(layer), copy.deepcopy(layer)
    expected, bias = layer(hm.ones(1, 3)).tolist(), layer.bias.tolist()
    parametrize.remove_parametrizations(one, "weight")
    parametrize.register_parametrization(other, "bias", Twice())
    assert layer(hm.ones(1, 3)).tolist() == expected and layer.bias.tolist() == bias
    assert other.bias.tolist() == [2 * each for each in bias]
    np.testing.assert_allclose(one(hm.ones(1, 3)).tolist(), expected, rtol=1e-6)


def test_parametrisations_keep_what_is_trained_and_refuse_other_names():
    layer = nn.Linear(3, 2)
    layer.weight.requires_grad_(False)
    parametrizations.weight_norm(layer)
    assert not layer.parametrizations.weight.original0.requires_grad and not layer.weight.requires_grad
    assert not parametrize.remove_parametrizations(layer, "weight").weight.requires_grad
    for name in ("nothing", "in_features"):
        with pytest.raises(ValueError, match=f"Linear has no parameter '{name}'"):
            parametrizations.weight_norm(layer, name)
    assert type(layer) is nn.Linear and not list(layer.children())
    with pytest.raises(ValueError, match="not parametrised"):
        parametrize.remove_parametrizations(layer, "weight")


def test_packed_sequences_stay_on_their_device():
    rnn = nn.utils.rnn
    layer = nn.LSTM(3, 4, bidirectional=True).to("reference")
    sequence = rnn.pack_padded_sequence(hm.randn(5, 2, 3, device="reference"), [2, 5], enforce_sorted=False)
    state = hm.zeros(2, 2, 4, device="reference")
    output, (last, _) = layer(sequence, (state, state))
    assert last.device == state.device and rnn.pad_packed_sequence(output)[0].device == state.device
    assert hm.isfinite(last).all().item()
