#!/usr/bin/env python3
"""Writes a golden suite of Fourier transforms and windows, computed by PyTorch 2 on its CPU.

    scripts/golden_fft.py DIR                  # needs torch and numpy
    tests/golden/pack.sh DIR golden_fft        # makes tests/golden/golden_fft.tar.xz

The format is that of tests/golden/README.md. Inputs come from a fixed seed.
"""

import sys

import torch

from golden_complex import Suite

COMPLEX = (torch.complex64, torch.complex128)
REAL = (torch.float32, torch.float64)
NORMS = (None, "backward", "forward", "ortho")
# What a function takes: complex and real numbers, real ones alone, or half of a spectrum.
TAKES = {"fft": "any", "ifft": "any", "rfft": "real", "irfft": "half", "hfft": "half", "ihfft": "real"}


def dtypes_of(takes):
    return REAL if takes == "real" else COMPLEX if takes == "half" else (*COMPLEX, *REAL)


def one_dim(suite):
    for name, takes in TAKES.items():
        group, fn = f"fft_{name}", f"torch.fft.{name}"
        for dtype in dtypes_of(takes):
            for size in (1, 2, 5, 8, 11, 12):
                if takes == "half" and size == 1:
                    continue
                suite.add(group, f"size{size}", fn, [suite.numbers(2, size, dtype=dtype)])
        dtype = dtypes_of(takes)[0]
        for norm in NORMS:
            suite.add(group, "norm", fn, [suite.numbers(6, dtype=dtype)], {"norm": norm})
        for n in (1, 3, 4, 9, 10):
            suite.add(group, "n", fn, [suite.numbers(3, 6, dtype=dtype), n])
        for dim in (0, 1, -1, -3):
            suite.add(group, "dim", fn, [suite.numbers(4, 3, 5, dtype=dtype)], {"dim": dim})
        suite.add(group, "n_dim_norm", fn, [suite.numbers(4, 3, dtype=dtype), 7, 0, "ortho"])
        suite.add(group, "integers", fn, [suite.numbers(6, dtype=torch.int64)], grad=False)
        suite.add(group, "bool", fn, [torch.tensor([True, False, True, True])], grad=False)
        suite.add(group, "no_rows", fn, [suite.numbers(0, 6, dtype=dtype)], grad=False)
        for bad in ([suite.numbers(dtype=dtype)], [suite.numbers(3, dtype=dtype), 0],
                    [suite.numbers(3, dtype=dtype), -2], [suite.numbers(3, dtype=dtype), None, 2],
                    [suite.numbers(3, dtype=dtype), None, -1, "half"],
                    [suite.numbers(3, 0, dtype=dtype)], [suite.numbers(3, dtype=torch.float16)]):
            suite.add(group, "refused", fn, bad, grad=False)
        if takes == "real":
            suite.add(group, "refused", fn, [suite.numbers(3, dtype=torch.complex64)], grad=False)
        if takes == "half":
            suite.add(group, "of_real", fn, [suite.numbers(2, 4, dtype=torch.float32)])
    # Lengths with large factors, and long ones.
    for size in (37, 97, 128, 210, 509):
        suite.add("fft_fft", "long", "torch.fft.fft", [suite.numbers(size, dtype=torch.complex64)])
        suite.add("fft_rfft", "long", "torch.fft.rfft", [suite.numbers(size, dtype=torch.float64)])
        suite.add("fft_irfft", "long", "torch.fft.irfft", [suite.numbers(size, dtype=torch.complex64)])


def many_dims(suite):
    for name, takes in TAKES.items():
        for form in "2n":
            group, fn = f"fft_{name}{form}", f"torch.fft.{name}{form}"
            for dtype in dtypes_of(takes):
                suite.add(group, "matrix", fn, [suite.numbers(4, 5, dtype=dtype)])
            dtype = dtypes_of(takes)[0]
            for norm in NORMS:
                suite.add(group, "norm", fn, [suite.numbers(2, 3, 4, dtype=dtype)], {"norm": norm})
            suite.add(group, "s", fn, [suite.numbers(2, 4, 5, dtype=dtype), [3, 6]])
            suite.add(group, "s_keeps", fn, [suite.numbers(2, 4, 5, dtype=dtype), [-1, 7]])
            suite.add(group, "dim", fn, [suite.numbers(4, 3, 5, dtype=dtype)], {"dim": [0, 2]})
            suite.add(group, "order", fn, [suite.numbers(4, 3, 5, dtype=dtype)], {"dim": [2, 0]})
            suite.add(group, "s_dim", fn, [suite.numbers(4, 3, 5, dtype=dtype), [2, 6], [1, 0], "forward"])
            suite.add(group, "one_dim", fn, [suite.numbers(4, 3, dtype=dtype)], {"dim": [0]})
            suite.add(group, "integers", fn, [suite.numbers(3, 4, dtype=torch.int32)], grad=False)
            for bad in ([suite.numbers(3, 4, dtype=dtype), [2, 3, 4]],
                        [suite.numbers(3, 4, dtype=dtype), [2], [0, 1]],
                        [suite.numbers(3, 4, dtype=dtype), None, [1, 1]],
                        [suite.numbers(3, 4, dtype=dtype), None, [0, 2]],
                        [suite.numbers(3, 4, dtype=dtype), [0, 3]]):
                suite.add(group, "refused", fn, bad, grad=False)
            if form == "n":
                suite.add(group, "three", fn, [suite.numbers(3, 2, 4, dtype=dtype)])
                suite.add(group, "no_dims", fn, [suite.numbers(3, 2, dtype=dtype)], {"dim": []}, grad=False)
                suite.add(group, "rank0", fn, [suite.numbers(dtype=dtype)], grad=False)
            else:
                suite.add(group, "refused", fn, [suite.numbers(3, dtype=dtype)], grad=False)


def frequencies(suite):
    for name in ("fftfreq", "rfftfreq"):
        group, fn = f"fft_{name}", f"torch.fft.{name}"
        for n in (1, 2, 7, 8):
            suite.add(group, "n", fn, [n])
            suite.add(group, "d", fn, [n, 0.25], {"dtype": torch.float64})
    for name in ("fftshift", "ifftshift"):
        group, fn = f"fft_{name}", f"torch.fft.{name}"
        for dtype in (torch.complex64, torch.float32, torch.int64):
            suite.add(group, "all", fn, [suite.numbers(4, 5, dtype=dtype)])
            suite.add(group, "dim", fn, [suite.numbers(4, 5, dtype=dtype), 1])
            suite.add(group, "dims", fn, [suite.numbers(4, 3, 5, dtype=dtype), [0, -1]])
        suite.add(group, "refused", fn, [suite.numbers(4), 1], grad=False)


def frames(suite):
    window = suite.numbers(8, dtype=torch.float32, low=0.2, high=1.0)
    short = suite.numbers(5, dtype=torch.float32, low=0.2, high=1.0)
    even = suite.numbers(6, dtype=torch.float32, low=0.2, high=1.0)
    whole = {"return_complex": True}
    for options in ({}, {"center": False}, {"normalized": True}, {"onesided": False}, {"hop_length": 3},
                    {"pad_mode": "constant"}, {"pad_mode": "replicate"}, {"pad_mode": "circular"},
                    {"return_complex": False}, {"window": window}, {"window": short, "win_length": 5},
                    {"window": even, "win_length": 6, "hop_length": 2, "center": False, "align_to_window": True},
                    {"win_length": 6, "hop_length": 4}, {"window": window.to(torch.complex64)}):
        for shape in ((23,), (2, 20)):
            suite.add("stft", "options", "torch.stft", [suite.numbers(*shape, dtype=torch.float32), 8],
                      whole | options)
    suite.add("stft", "double", "torch.stft", [suite.numbers(20, dtype=torch.float64), 7], whole)
    for dtype in COMPLEX:
        suite.add("stft", "complex", "torch.stft", [suite.numbers(20, dtype=dtype), 8])
    x = suite.numbers(20, dtype=torch.float32)
    for arguments, options in (([x, 0], {}), ([x, 30], {"center": False}), ([x, 8], {"hop_length": 0}),
                               ([x, 8], {"win_length": 9}), ([x, 8], {"window": short}), ([x[:3], 8], {}),
                               ([x.reshape(1, 4, 5), 8], {}), ([x, 8], {"center": True, "align_to_window": True}),
                               ([x.to(torch.complex64), 8], {"onesided": True})):
        suite.add("stft", "refused", "torch.stft", arguments, whole | options, grad=False)

    for options in ({}, {"normalized": True}, {"hop_length": 3}, {"length": 13}, {"length": 25},
                    {"window": window}, {"window": window, "center": False}, {"window": short, "win_length": 5},
                    {"win_length": 6, "hop_length": 4}):
        for shape in ((5, 7), (2, 5, 6)):
            suite.add("istft", "options", "torch.istft", [suite.numbers(*shape, dtype=torch.complex64), 8], options)
    suite.add("istft", "double", "torch.istft", [suite.numbers(4, 6, dtype=torch.complex128), 7])
    suite.add("istft", "twosided", "torch.istft", [suite.numbers(8, 6, dtype=torch.complex64), 8], {"onesided": False})
    suite.add("istft", "complex", "torch.istft", [suite.numbers(8, 6, dtype=torch.complex64), 8],
              {"return_complex": True})
    z = suite.numbers(5, 6, dtype=torch.complex64)
    hann = torch.hann_window(8)
    for arguments, options in (([z, 7], {}), ([z, 8], {"hop_length": 9}), ([z, 8], {"win_length": 9}),
                               ([z, 8], {"window": short}), ([z.real, 8], {}), ([z, 8], {"return_complex": True}),
                               ([z[:, :0], 8], {}), ([z, 8], {"window": hann, "center": False})):
        suite.add("istft", "refused", "torch.istft", arguments, options, grad=False)


def windows(suite):
    for name in ("hann", "hamming", "blackman", "bartlett", "kaiser"):
        group, fn = f"{name}_window", f"torch.{name}_window"
        for size in (0, 1, 2, 7, 8):
            suite.add(group, "size", fn, [size], {"dtype": torch.float64})
            suite.add(group, "symmetric", fn, [size, False])
    suite.add("kaiser_window", "beta", "torch.kaiser_window", [9, True, 5.0])
    suite.add("kaiser_window", "beta", "torch.kaiser_window", [9, False, 0.0], {"dtype": torch.float64})
    suite.add("kaiser_window", "refused", "torch.kaiser_window", [9], {"dtype": torch.int64})
    parameters = {"exponential": {"tau": 2.0}, "gaussian": {"std": 1.5}, "kaiser": {"beta": 6.0},
                  "general_hamming": {"alpha": 0.6}, "general_cosine": {"a": [0.4, 0.3, 0.2]}}
    for name in ("bartlett", "blackman", "cosine", "exponential", "gaussian", "general_cosine", "general_hamming",
                 "hamming", "hann", "kaiser", "nuttall"):
        group, fn = f"signal_windows_{name}", f"torch.signal.windows.{name}"
        given = parameters.get(name, {})
        needed = given if name == "general_cosine" else {}
        for size in (0, 1, 2, 7, 8):
            suite.add(group, "size", fn, [size], {"dtype": torch.float64, **needed})
            suite.add(group, "periodic", fn, [size], {"sym": False, **given})
        suite.add(group, "refused", fn, [-1], needed)
    suite.add("signal_windows_exponential", "center", "torch.signal.windows.exponential", [7],
              {"center": 2.0, "sym": False})
    suite.add("signal_windows_exponential", "refused", "torch.signal.windows.exponential", [7], {"center": 2.0})
    suite.add("signal_windows_gaussian", "refused", "torch.signal.windows.gaussian", [7], {"std": 0.0})


def main():
    torch.manual_seed(0)
    suite = Suite("fft")
    for group in (one_dim, many_dims, frequencies, frames, windows):
        group(suite)
    suite.write(sys.argv[1])
    print(len(suite.lines), "cases of", len(suite.arrays), "groups")


if __name__ == "__main__":
    main()
