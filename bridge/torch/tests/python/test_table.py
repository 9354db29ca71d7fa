"""Which gradients and native forms, as PyTorch's autograd emits them, have a form of Hammock."""

import unittest

import hammock_torch  # noqa: F401: PyTorch's libraries, and Hammock's before them
import torch
from hammock_torch import _C

# Of other libraries, and of kinds of tensors without a counterpart.
ELSEWHERE = ("cudnn", "miopen", "mkldnn", "mps", "nested", "sparse")

# They run by PyTorch on the CPU.
MISSING = {
    "_efficient_attention_backward", "_embedding_bag_backward", "_embedding_bag_dense_backward",
    "_embedding_bag_per_sample_weights_backward",
    "_fake_quantize_learnable_per_channel_affine_backward",
    "_fake_quantize_learnable_per_tensor_affine_backward", "_flash_attention_backward",
    "_grid_sampler_2d_cpu_fallback_backward", "_masked_softmax_backward", "_pdist_backward",
    "_scaled_dot_product_fused_attention_overrideable_backward", "_segment_reduce_backward",
    "_slow_conv2d_backward.output_mask", "_upsample_lanczos2d_aa_backward", "linear_backward",
    "matmul_backward", "max_pool2d_backward", "multi_margin_loss_backward",
    "multilabel_margin_loss_backward", "native_norm", "native_norm.ScalarOpt_dim_dtype",
    "rrelu_with_noise_backward",
}  # fmt: skip


def table():
    """Whether Hammock has it, for each of them that PyTorch does not compose of others."""
    result = {}
    for overload in torch._C._dispatch_get_all_op_names():
        namespace, _, name = overload.partition("::")
        base, _, form = name.partition(".")
        wanted = base.endswith("_backward") or base.startswith("native_")
        if namespace != "aten" or not wanted or form.endswith("out") or form == "grad_input":
            continue
        if torch._C._dispatch_has_kernel_for_dispatch_key(overload, "CompositeImplicitAutograd"):
            continue
        if not any(word in base for word in ELSEWHERE):
            result[name] = _C.knows(overload)
    return result


class Table(unittest.TestCase):
    def test_gradients_and_native_forms(self):
        known = table()
        missing = {name for name, has in known.items() if not has}
        self.assertGreater(len(known), 2 * len(missing))
        self.assertEqual(missing - MISSING, set(), "fall back now")
        self.assertEqual(MISSING & (known.keys() - missing), set(), "are there now")


if __name__ == "__main__":
    unittest.main()
