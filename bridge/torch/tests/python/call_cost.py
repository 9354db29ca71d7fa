"""The cost of a call of torch.compile(backend=hammock) beside a backend that returns a prepared tensor, in one run.

Prints the lowest time of several rounds in microseconds; tensors have eight elements. Kept inputs come with the same memory and
version each time, as weights do; new ones are written between calls.
"""

import time

import torch
from hammock_torch.dynamo import hammock
from torch._dynamo.backends.common import aot_autograd


def prepared(gm, example_inputs):
    results = [torch.zeros(8)]

    def call(args):
        args.clear()
        return results

    call._boxed_call = True
    return call


def function(count):
    def add(*inputs):
        total = inputs[0] * 2
        for x in inputs[1:]:
            total = total + x
        return total

    return add


def lowest(compiled, inputs, rounds=200, calls=50):
    best = float("inf")
    for _ in range(rounds):
        start = time.perf_counter()
        for _ in range(calls):
            compiled(*inputs)
        best = min(best, time.perf_counter() - start)
    return best / calls * 1e6


def lowest_of_new(compiled, inputs, rounds=3000):
    best = float("inf")
    for _ in range(rounds):
        for x in inputs:
            x.add_(0)
        start = time.perf_counter()
        compiled(*inputs)
        best = min(best, time.perf_counter() - start)
    return best * 1e6


def main():
    torch.set_num_threads(1)
    print(f"{'inputs':>6} {'prepared':>9} {'kept':>6} {'more':>6}   {'prepared':>9} {'new':>6} {'more':>6}")
    with torch.no_grad():
        for count in (1, 8):
            torch._dynamo.reset()
            inputs = [torch.ones(8) for _ in range(count)]
            backends = (aot_autograd(fw_compiler=prepared, inference_compiler=prepared), hammock)
            compiled = [torch.compile(function(count), backend=backend) for backend in backends]
            for fn in compiled:
                for _ in range(5):
                    fn(*inputs)
            base, kept = (lowest(fn, inputs) for fn in compiled)
            base_new, new = (lowest_of_new(fn, inputs) for fn in compiled)
            print(f"{count:6} {base:9.2f} {kept:6.2f} {kept - base:6.2f}   {base_new:9.2f} {new:6.2f} {new - base_new:6.2f}")


if __name__ == "__main__":
    main()
