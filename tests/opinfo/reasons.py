"""Why entries of torch's operator database have no annotation, each with its reason.

`python -m tests.opinfo` prints them, and fails where an entry that is not here has none, or one that
is here has one.
"""

from __future__ import annotations

_DATA = "what torch traces depends on the data: torch.compile has no graph of it"
_SPARSE = "a sparse tensor: torch.compile takes none"
_CUDA = "runs on GPUs alone"
_INSIDE = "a part of torch's own decompositions, which no model calls"
_STORAGE = "changes the memory of its argument: torch.compile refuses it"
_NO_TENSOR = "no tensor is given or returned"
_NARROW = "a dtype that the CPU has no kernel for"

_REASONS = {
    _DATA: """
        item equal allclose cov corrcoef nn.functional.gaussian_nll_loss linalg.lstsq
        linalg.lstsq.grad_oriented
    """,
    _SPARSE: "sparse.mm.reduce sparse.sampled_addmm to_sparse",
    _CUDA: """
        jiterator_unary jiterator_binary jiterator_4inputs_with_extra_args
        jiterator_binary_return_by_ref jiterator_2inputs_2outputs
    """,
    _INSIDE: "_unsafe_masked_index _unsafe_masked_index_put_accumulate _chunk_cat",
    _STORAGE: "resize_ resize_as_",
    _NO_TENSOR: "broadcast_shapes",
    "torch's own backward fails on its result": "fft.ihfft fft.ihfft2",
    "returns a list inside of a tuple": "histogramdd",
    "not written down for all of its arguments": "nn.functional.multi_head_attention_forward",
}

WITHOUT = {name: reason for reason, names in _REASONS.items() for name in names.split()}
"""Entry to reason."""
