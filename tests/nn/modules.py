"""Prints what PyTorch's modules give, with gradients, and the names of all of them, as modules.json has it.

    python3 modules.py > modules.json

Values of inputs, parameters and buffers are those that the test computes too, as in pytorch.py.
"""
import inspect
import json
import torch
from module_cases import composed, numbers, unary
from torch import nn

torch.set_default_dtype(torch.float64)


def values(shape, seed, scale=1.0):
    return torch.tensor(numbers(shape, seed, scale)).reshape(shape)


def samples(*shape):
    return values(shape, 50) + 0.5


def tensors(value):
    if isinstance(value, torch.Tensor):
        return [value]
    return [] if value is None else [each for part in value for each in tensors(part)]


def listed(tensor):
    return {"shape": list(tensor.shape), "values": tensor.detach().flatten().tolist()}


def run(module, shapes, seed):
    """Outputs, buffers after the call, and gradients of their sum, weighted, with respect to inputs and parameters."""
    state = getattr(module, "module", None)
    if state is not None:
        with torch.no_grad():
            for number, (name, tensor) in enumerate(state.state_dict().items()):
                if tensor.is_floating_point():
                    tensor.copy_(values(tensor.shape, number + 1))
                    if name.endswith("running_var"):
                        tensor.abs_().add_(0.5)
    inputs = [values(shape, seed + i, 2.0).requires_grad_() for i, shape in enumerate(shapes)]
    outputs = tensors(module(*inputs))
    sum((output * values(output.shape, 200 + i)).sum() for i, output in enumerate(outputs)).backward()
    result = {"inputs": [list(shape) for shape in shapes], "outputs": [listed(output) for output in outputs],
              "input_grads": [each.grad.flatten().tolist() for each in inputs]}
    if state is not None:
        result["keys"] = [[name, list(tensor.shape)] for name, tensor in state.state_dict().items()]
        result["buffers"] = {name: tensor.flatten().tolist() for name, tensor in state.named_buffers()}
        result["grads"] = {name: tensor.grad.flatten().tolist() for name, tensor in state.named_parameters()}
    return result


def rounded(value):
    if isinstance(value, float):
        return float(f"{value:.9g}")
    if isinstance(value, list):
        return [rounded(each) for each in value]
    if isinstance(value, dict):
        return {name: rounded(each) for name, each in value.items()}
    return value


def section(name, cases):
    print(f' "{name}": {{')
    print(",\n".join(f'  "{key}": {json.dumps(rounded(each))}' for key, each in cases.items()))
    print(" },")


classes = [name for name in dir(nn) if inspect.isclass(getattr(nn, name))]
print("{")
section("unary", {name: run(layer, [shape], 7) for name, (layer, shape) in sorted(unary(nn, samples).items())})
section("modules", {name: run(layer, shapes, 100) for name, (layer, shapes) in composed(nn, torch.tensor).items()})
print(f' "version": {json.dumps(torch.__version__.split("+")[0])},')
print(f' "classes": {json.dumps(classes)}')
print("}")
