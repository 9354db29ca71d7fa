"""Prints what PyTorch's layers have in their state_dict and give, as pytorch.json has it.

    python3 pytorch.py > pytorch.json

All floating values of a state_dict are filled with numbers that the test computes too.
"""
import json
import torch
from module_cases import IMAGE, functions, layers, losses, numbers
from torch import nn

torch.set_default_dtype(torch.float64)


def values(shape, seed, scale=1.0):
    return torch.tensor(numbers(shape, seed, scale)).reshape(shape)


def fill(module):
    with torch.no_grad():
        for seed, (name, tensor) in enumerate(module.state_dict().items()):
            if tensor.is_floating_point():
                tensor.copy_(values(tensor.shape, seed + 1))
                if name.endswith("running_var"):
                    tensor.abs_().add_(0.5)


def tensors(value):
    if isinstance(value, torch.Tensor):
        return [value]
    return [] if value is None else [each for part in value for each in tensors(part)]


def run_layer(layer, inputs):
    fill(layer)
    if inputs[0] == "ints":
        arguments = [torch.arange(2 * 3).reshape(inputs[1]) * 2 % inputs[2]]
    else:
        arguments = [values(shape, 100 + i, 2.0) for i, shape in enumerate(inputs)]
    keys = [[name, list(tensor.shape)] for name, tensor in layer.state_dict().items()]
    outputs = tensors(layer(*arguments))
    buffers = {name: tensor.flatten().tolist() for name, tensor in layer.named_buffers()}
    return {
        "inputs": [list(each.shape) for each in arguments],
        "keys": keys,
        "outputs": [{"shape": list(each.shape), "values": each.flatten().tolist()} for each in outputs],
        "buffers": buffers,
    }


def run_unary(layer):
    output = layer(values(IMAGE, 7, 6.0))
    return {"shape": list(output.shape), "values": output.flatten().tolist()}


def rounded(value):
    if isinstance(value, float):
        return float(f"{value:.9g}")
    if isinstance(value, list):
        return [rounded(each) for each in value]
    if isinstance(value, dict):
        return {name: rounded(each) for name, each in value.items()}
    return value


print("{")
print(' "layers": {')
print(",\n".join(f'  "{name}": {json.dumps(rounded(run_layer(*each)))}' for name, each in layers(nn).items()))
print(' },\n "unary": {')
print(",\n".join(f'  "{name}": {json.dumps(rounded(run_unary(each)))}' for name, each in functions(nn).items()))
print(' },\n "losses": ' + json.dumps({name: each.item() for name, each in losses(nn, torch.tensor, values).items()}))
print("}")
