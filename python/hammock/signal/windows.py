"""Windows by their shapes: `M` weights, symmetric or, with `sym=False`, periodic."""

from .. import (
    signal_windows_bartlett as bartlett,
    signal_windows_blackman as blackman,
    signal_windows_cosine as cosine,
    signal_windows_exponential as exponential,
    signal_windows_gaussian as gaussian,
    signal_windows_general_cosine as general_cosine,
    signal_windows_general_hamming as general_hamming,
    signal_windows_hamming as hamming,
    signal_windows_hann as hann,
    signal_windows_kaiser as kaiser,
    signal_windows_nuttall as nuttall,
)

__all__ = ["bartlett", "blackman", "cosine", "exponential", "gaussian", "general_cosine", "general_hamming", "hamming",
           "hann", "kaiser", "nuttall"]
