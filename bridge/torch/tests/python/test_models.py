"""Models of torchvision and Hugging Face, with random weights, through torch.compile and on device
"hammock": outputs and gradients beside eager mode by PyTorch's own measure for models
(torch._dynamo.utils.same: the error to f64 may not exceed that of eager mode by more than the
tolerance), in strict mode, so that nothing falls back.
"""

import copy

import pytest
import torch
from torch._dynamo.utils import same

import hammock_torch
import hammock_torch.device  # noqa: F401: registers the device
from hammock_torch.dynamo import hammock

torchvision = pytest.importorskip("torchvision")
transformers = pytest.importorskip("transformers")

OUTPUTS, GRADIENTS = 1e-4, 1e-3  # what PyTorch's benchmarks allow inference and training in f32


def images(size):
    return torch.randn(2, 3, size, size)


def tokens(vocabulary):
    return torch.randint(0, vocabulary, (2, 32))


def without_dropout(config):
    """The order in which attention draws its numbers is eager mode's alone."""
    for name in vars(config):
        if name.endswith(("dropout", "dropout_prob", "pdrop")):
            setattr(config, name, 0.0)
    return config


def resnet18():
    return torchvision.models.resnet18(), images(96)


def mobilenet_v3():
    return torchvision.models.mobilenet_v3_small(), images(96)


def vit_b_16():
    return torchvision.models.vit_b_16(image_size=64), images(64)


def bert():
    config = without_dropout(transformers.BertConfig())
    return transformers.BertModel(config, add_pooling_layer=False), tokens(config.vocab_size)


def gpt2():
    config = without_dropout(transformers.GPT2Config(use_cache=False))
    return transformers.GPT2LMHeadModel(config), tokens(config.vocab_size)


def llama():
    config = transformers.LlamaConfig(
        vocab_size=1000, hidden_size=256, intermediate_size=688, num_hidden_layers=4,
        num_attention_heads=8, num_key_value_heads=2, use_cache=False,
    )  # fmt: skip
    return transformers.LlamaForCausalLM(config), tokens(config.vocab_size)


MODELS = [resnet18, mobilenet_v3, vit_b_16, bert, gpt2, llama]


def first_output(output):
    return output if isinstance(output, torch.Tensor) else output[0]


def trained(model, x):
    """The output and the gradients of one training step, on the CPU."""
    torch.manual_seed(1)
    output = first_output(model(x))
    output.float().square().mean().backward()
    gradients = {
        name.removeprefix("_orig_mod."): parameter.grad.cpu()
        for name, parameter in model.named_parameters()
        if parameter.grad is not None
    }
    return output.detach().cpu(), gradients


def inferred(model, x):
    with torch.no_grad():
        return first_output(model(x)).cpu()


def wide(model, x):
    return copy.deepcopy(model).double(), x.double() if x.is_floating_point() else x


@pytest.fixture(autouse=True)
def strict():
    torch.manual_seed(0)
    torch._dynamo.reset()
    hammock_torch.reset_fallbacks()
    hammock_torch.set_strict(True)
    yield
    hammock_torch.set_strict(False)
    assert hammock_torch.fallbacks() == {}


def by_compile(model, x):
    return torch.compile(copy.deepcopy(model), backend=hammock, fullgraph=True), x


def on_device(model, x):
    return copy.deepcopy(model).to("hammock"), x.to("hammock")


def check(make, door):
    model, x = make()
    model.eval()
    expected, exact = inferred(model, x), inferred(*wide(model, x))
    assert same(expected, inferred(*door(model, x)), exact, tol=OUTPUTS)
    model.train()
    references = trained(*wide(model, x))
    results = trained(*door(model, x))
    expected = trained(model, x)
    assert same(expected[0], results[0], references[0], tol=OUTPUTS)
    assert expected[1].keys() == results[1].keys()
    for name, gradient in expected[1].items():
        assert same(gradient, results[1][name], references[1][name], tol=GRADIENTS), name


@pytest.mark.parametrize("make", MODELS, ids=lambda make: make.__name__)
def test_compiled(make):
    check(make, by_compile)


@pytest.mark.parametrize("make", MODELS, ids=lambda make: make.__name__)
def test_on_device(make):
    check(make, on_device)
