#!/usr/bin/env python3
"""Writes a golden suite of functions that close gaps in PyTorch's function index, computed by PyTorch 2 on its CPU.

    scripts/golden_names.py DIR                  # needs torch and numpy
    tests/golden/pack.sh DIR golden_names        # makes tests/golden/golden_names.tar.xz

The format is that of tests/golden/README.md. Inputs come from a fixed seed. PyTorch has no gradients of polynomials.
"""

import sys

import torch

from golden_complex import Suite

F32, F64 = torch.float32, torch.float64
BOTH = (F32, F64)
POLYNOMIALS = ("chebyshev_polynomial_t", "chebyshev_polynomial_u", "chebyshev_polynomial_v", "chebyshev_polynomial_w",
               "shifted_chebyshev_polynomial_t", "shifted_chebyshev_polynomial_u", "shifted_chebyshev_polynomial_v",
               "shifted_chebyshev_polynomial_w", "hermite_polynomial_h", "hermite_polynomial_he",
               "laguerre_polynomial_l", "legendre_polynomial_p")


def special(suite):
    for name in POLYNOMIALS:
        group, fn = f"special_{name}", f"torch.special.{name}"
        for n in (-1, 0, 1, 2, 3, 6):
            for dtype in BOTH:
                suite.add(group, f"n{n}", fn, [suite.numbers(7, dtype=dtype, low=-0.9, high=0.9), n], grad=False)
        suite.add(group, "integers", fn, [suite.numbers(5, dtype=torch.int64), 3], grad=False)
    for dtype in BOTH:
        suite.add("special_ndtri", "inside", "torch.special.ndtri",
                  [suite.numbers(20, dtype=dtype, low=0.001, high=0.999)])
        tails = torch.tensor([1e-12 if dtype is F64 else 1e-5, 1e-4, 0.0199, 0.0201, 0.5, 0.98, 0.9999], dtype=dtype)
        suite.add("special_ndtri", "tails", "torch.special.ndtri", [tails])
        edges = torch.tensor([0.0, 1.0, -0.5, 1.5, float("nan")], dtype=dtype)
        suite.add("special_ndtri", "edges", "torch.special.ndtri", [edges], grad=False)
        for name in ("spherical_bessel_j0", "modified_bessel_i0", "modified_bessel_i1"):
            suite.add(f"special_{name}", "some", f"torch.special.{name}", [suite.numbers(9, dtype=dtype)], grad=False)


def linalg(suite):
    n = suite.numbers
    for dtype in (*BOTH, torch.complex64):
        vecdot = "torch.linalg.vecdot"
        suite.add("linalg_vecdot", "rows", vecdot, [n(3, 4, dtype=dtype), n(3, 4, dtype=dtype)])
        suite.add("linalg_vecdot", "broadcast", vecdot, [n(3, 4, dtype=dtype), n(4, dtype=dtype)])
        suite.add("linalg_vecdot", "dim", vecdot, [n(3, 4, dtype=dtype), n(3, 4, dtype=dtype)], {"dim": 0})
        suite.add("linalg_vander", "rows", "torch.linalg.vander", [n(2, 3, dtype=dtype)])
        suite.add("linalg_vander", "N", "torch.linalg.vander", [n(3, dtype=dtype)], {"N": 5})
        suite.add("vander", "vector", "torch.vander", [n(4, dtype=dtype)])
        suite.add("vander", "increasing", "torch.vander", [n(3, dtype=dtype), 4, True])
    suite.add("linalg_vander", "refused", "torch.linalg.vander", [n(3)], {"N": 1}, grad=False)
    suite.add("vander", "integers", "torch.vander", [n(3, dtype=torch.int32), 3], grad=False)
    suite.add("vander", "none", "torch.vander", [n(3, dtype=F32), 0], grad=False)
    suite.add("vander", "refused", "torch.vander", [n(3, 2)], grad=False)
    for p in (None, 2, -2, 1, -1, float("inf"), "fro", "nuc"):
        suite.add("linalg_cond", "norm", "torch.linalg.cond", [n(2, 3, 3, dtype=F64) + 2 * torch.eye(3)],
                  {} if p is None else {"p": p}, grad=p not in (-2, "nuc"))
    suite.add("linalg_cond", "wide", "torch.linalg.cond", [n(3, 4, dtype=F64)])
    suite.add("linalg_cond", "refused", "torch.linalg.cond", [n(3, 4, dtype=F64)], {"p": 1}, grad=False)
    sizes = (3, 5, 2, 6, 4)
    chain = [n(a, b, dtype=F64) for a, b in zip(sizes, sizes[1:])]
    fn = "torch.linalg.multi_dot"
    for count in (2, 3, 4):
        suite.add("linalg_multi_dot", "matrices", fn, [chain[:count]])
    suite.add("linalg_multi_dot", "vectors", fn, [[n(3, dtype=F64), chain[0], chain[1], n(2, dtype=F64)]])
    suite.add("linalg_multi_dot", "row", fn, [[n(3, dtype=F64), chain[0], chain[1]]])
    suite.add("linalg_multi_dot", "column", fn, [[chain[0], chain[1], n(2, dtype=F64)]])
    suite.add("linalg_multi_dot", "refused", fn, [[chain[0]]], grad=False)
    suite.add("linalg_multi_dot", "refused", fn, [[chain[0], chain[0]]], grad=False)
    cube = (torch.eye(6, dtype=F64) * 3 + n(6, 6, dtype=F64) * 0.3).reshape(2, 3, 6)
    suite.add("linalg_tensorinv", "two", "torch.linalg.tensorinv", [cube])
    suite.add("linalg_tensorinv", "one", "torch.linalg.tensorinv", [cube.reshape(6, 3, 2)], {"ind": 1})
    suite.add("linalg_tensorinv", "refused", "torch.linalg.tensorinv", [cube, 1], grad=False)
    suite.add("linalg_tensorsolve", "plain", "torch.linalg.tensorsolve", [cube, n(2, 3, dtype=F64)])
    suite.add("linalg_tensorsolve", "dims", "torch.linalg.tensorsolve",
              [cube.permute(2, 0, 1).contiguous(), n(2, 3, dtype=F64)], {"dims": [0]})
    suite.add("linalg_tensorsolve", "refused", "torch.linalg.tensorsolve", [cube, n(3, 3, dtype=F64)], grad=False)
    for dtype in (F64, torch.complex128):
        matrix = n(2, 4, 4, dtype=dtype) + 3 * torch.eye(4, dtype=dtype)
        factors, pivots = torch.linalg.lu_factor(matrix)
        for left in (True, False):
            for adjoint in (True, False):
                b = n(2, 4, 3, dtype=dtype) if left else n(2, 3, 4, dtype=dtype)
                suite.add("linalg_lu_solve", "batch", "torch.linalg.lu_solve", [factors, pivots, b],
                          {"left": left, "adjoint": adjoint})
        suite.add("linalg_lu_solve", "broadcast", "torch.linalg.lu_solve",
                  [factors, pivots, n(4, 2, dtype=dtype)])
        suite.add("lu_solve", "one", "torch.lu_solve", [n(4, 2, dtype=dtype), factors[0], pivots[0]])
    for dtype in (F64, torch.complex128):
        for shape, k in (((4, 3), 3), ((4, 3), 2), ((2, 5, 2), 2), ((3, 3), 0)):
            v, tau = n(*shape, dtype=dtype), n(*shape[:-2], k, dtype=dtype)
            suite.add("linalg_householder_product", "sizes", "torch.linalg.householder_product", [v, tau],
                      grad=k == shape[-1])
            suite.add("orgqr", "sizes", "torch.orgqr", [v, tau], grad=False)
    suite.add("linalg_householder_product", "refused", "torch.linalg.householder_product",
              [n(2, 3, dtype=F64), n(2, dtype=F64)], grad=False)


def shapes(suite):
    n = suite.numbers
    suite.add("moveaxis", "one", "torch.moveaxis", [n(2, 3, 4, dtype=F32), 0, -1])
    suite.add("moveaxis", "two", "torch.moveaxis", [n(2, 3, 4, dtype=F32), [0, 1], [2, 0]])
    suite.add("swapdims", "two", "torch.swapdims", [n(2, 3, 4, dtype=F32), 0, 2])
    suite.add("concatenate", "dim", "torch.concatenate", [[n(2, 3, dtype=F32), n(2, 1, dtype=F32)], 1])
    suite.add("row_stack", "vectors", "torch.row_stack", [[n(3, dtype=F32), n(2, 3, dtype=F32)]])
    for name in ("unsafe_chunk", "unsafe_split"):
        suite.add(name, "dim", f"torch.{name}", [n(5, 4, dtype=F32), 2, 1])
    suite.add("unsafe_split_with_sizes", "dim", "torch.unsafe_split_with_sizes", [n(5, 4, dtype=F32), [2, 3], 0])
    for name in ("torch.channel_shuffle", "torch.nn.functional.channel_shuffle"):
        suite.add("channel_shuffle", "images", name, [n(2, 6, 2, 3, dtype=F32), 3])
        suite.add("channel_shuffle", "refused", name, [n(2, 5, 2, 3, dtype=F32), 3], grad=False)
    suite.add("native_channel_shuffle", "images", "torch.native_channel_shuffle", [n(1, 4, 2, dtype=F32), 2])
    suite.add("unravel_index", "matrix", "torch.unravel_index", [torch.tensor([[0, 5], [11, 23]]), [2, 3, 4]],
              grad=False)
    suite.add("unravel_index", "refused", "torch.unravel_index", [n(3, dtype=F32), [2, 3]], grad=False)
    suite.add("conv_tbc", "plain", "torch.conv_tbc", [n(7, 2, 3, dtype=F32), n(3, 3, 4, dtype=F32), n(4, dtype=F32)])
    suite.add("conv_tbc", "pad", "torch.conv_tbc",
              [n(7, 2, 3, dtype=F32), n(2, 3, 4, dtype=F32), n(4, dtype=F32), 2])
    for dim in (0, 1, -1):
        suite.add("norm_except_dim", "dim", "torch.norm_except_dim", [n(3, 4, 2, dtype=F32), 2, dim])


def layers(suite):
    n = suite.numbers
    for dims in (1, 2, 3):
        group, fn = f"lp_pool{dims}d", f"torch.nn.functional.lp_pool{dims}d"
        x = [6, 7, 5][:dims]
        for p in (1, 2, 3.5):
            suite.add(group, "norm", fn, [n(2, 2, *x, dtype=F32, low=0.2), p, 2])
        suite.add(group, "stride", fn, [n(2, 2, *x, dtype=F64), 2, 3, 1])
        suite.add(group, "ceil", fn, [n(2, 2, *x, dtype=F64), 2, 2, 2, True])
    for dims in (2, 3):
        group, fn = f"fractional_max_pool{dims}d", f"torch.nn.functional.fractional_max_pool{dims}d"
        sizes = [7, 8, 6][:dims]
        for dtype in BOTH:
            samples = n(2, 3, dims, dtype=dtype, low=0.0, high=0.99)
            x = n(2, 3, *sizes, dtype=dtype)
            suite.add(group, "size", fn, [x, 2, 3], {"_random_samples": samples}, grad=False)
            suite.add(group, "ratio", fn, [x, 2], {"output_ratio": [0.6] * dims, "_random_samples": samples},
                      grad=False)
            suite.add(group, "indices", fn, [x, 3, 1], {"return_indices": True, "_random_samples": samples},
                      grad=False)
            suite.add(f"{group}_with_indices", "size", f"{fn}_with_indices", [x, 2, 4], {"_random_samples": samples},
                      grad=False)
        suite.add(group, "refused", fn, [n(2, 3, *sizes, dtype=F32), 2], grad=False)
        suite.add(group, "refused", fn, [n(2, 3, *sizes, dtype=F32), 6, 5], grad=False)
    for name in ("dropout1d", "dropout2d", "dropout3d", "alpha_dropout", "feature_alpha_dropout"):
        fn = f"torch.nn.functional.{name}"
        rank = int(name[7]) if name[7].isdigit() else 2
        x = n(2, 3, *([4] * rank), dtype=F32)
        suite.add(name, "not_training", fn, [x, 0.5, False])
        suite.add(name, "none", fn, [x, 0.0, True])
        suite.add(name, "all", fn, [x, 1.0, True])
        suite.add(name, "refused", fn, [x, 1.5, True], grad=False)
    target = torch.tensor([1, 0, 3])
    lce, fn = "linear_cross_entropy", "torch.nn.functional.linear_cross_entropy"
    x, w = n(3, 5, dtype=F64), n(4, 5, dtype=F64)
    suite.add(lce, "plain", fn, [x, w, target])
    suite.add(lce, "bias", fn, [x, w, target], {"linear_bias": n(4, dtype=F64), "reduction": "sum"})
    suite.add(lce, "smooth", fn, [x, w, target], {"label_smoothing": 0.2, "ignore_index": 0})


def in_place(suite):
    n = suite.numbers
    # Functions that write their first argument; leaves cannot be written, so there are no gradients.
    for name, args in (("clip_", [-0.5, 0.5]), ("cumsum_", [1]), ("cumprod_", [0]), ("tril_", [1]), ("triu_", []),
                       ("renorm_", [2, 0, 1.0]), ("fill_diagonal_", [3.0]), ("i0_", []), ("conj_physical_", []),
                       ("mvlgamma_", [2]), ("polygamma_", [1])):
        low = 1.2 if name in ("mvlgamma_", "polygamma_") else -2.0
        for dtype in BOTH:
            suite.add(name, "matrix", f"Tensor.{name}", [n(3, 4, dtype=dtype, low=low, high=2.0), *args],
                      grad=False)
    suite.add("fill_diagonal_", "wrap", "Tensor.fill_diagonal_", [n(9, 3, dtype=F32), 5.0, True], grad=False)
    suite.add("fill_diagonal_", "cube", "Tensor.fill_diagonal_", [n(3, 3, 3, dtype=F32), 5.0], grad=False)
    suite.add("fill_diagonal_", "refused", "Tensor.fill_diagonal_", [n(3, 2, 3, dtype=F32), 5.0], grad=False)
    for name in ("igamma_", "igammac_"):
        suite.add(name, "two", f"Tensor.{name}",
                  [n(5, dtype=F64, low=0.2), n(5, dtype=F64, low=0.2)], grad=False)
    for name, shapes_of in (("addmm_", [(3, 4), (3, 2), (2, 4)]), ("addmv_", [(3,), (3, 2), (2,)]),
                            ("addr_", [(3, 2), (3,), (2,)]), ("addbmm_", [(3, 4), (5, 3, 2), (5, 2, 4)]),
                            ("baddbmm_", [(5, 3, 4), (5, 3, 2), (5, 2, 4)])):
        suite.add(name, "plain", f"Tensor.{name}", [n(*s, dtype=F32) for s in shapes_of], grad=False)
        suite.add(name, "scaled", f"Tensor.{name}", [n(*s, dtype=F32) for s in shapes_of],
                  {"beta": 0.5, "alpha": 2.0}, grad=False)


def main():
    torch.manual_seed(0)
    suite = Suite("names")
    for group in (special, linalg, shapes, layers, in_place):
        group(suite)
    suite.write(sys.argv[1])
    print(len(suite.lines), "cases of", len(suite.arrays), "groups")


if __name__ == "__main__":
    main()
