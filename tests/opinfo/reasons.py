"""Why entries of torch's operator database have no annotation, each with its reason.

`python -m tests.opinfo` prints them, and fails where an entry that is not here has none, or one
that is here has one.
"""

from __future__ import annotations

_DATA = "what torch traces depends on the data: torch.compile has no graph of it"
_SPARSE = "a sparse tensor: torch.compile takes none"
_CUDA = "the database has no samples of it for a CPU, or torch runs it on GPUs alone"
_INSIDE = "a part of torch's own decompositions, which no model calls"
_STORAGE = "changes the memory of its argument: torch.compile refuses it"
_NO_TENSOR = "no tensor is given or returned"

_REASONS = {
    _DATA: """
        item equal allclose cov corrcoef nn.functional.gaussian_nll_loss
        linalg.lstsq linalg.lstsq.grad_oriented
    """,
    _SPARSE: "sparse.mm.reduce sparse.sampled_addmm to_sparse",
    _CUDA: """
        jiterator_unary jiterator_binary jiterator_4inputs_with_extra_args
        jiterator_binary_return_by_ref jiterator_2inputs_2outputs torch._scaled_mm
        torch._scaled_mm_v2 torch.ops.aten._flash_attention_forward
        torch.ops.aten._efficient_attention_forward nn.functional.batch_norm.without_cudnn
    """,
    _INSIDE: "_unsafe_masked_index _unsafe_masked_index_put_accumulate _chunk_cat",
    _STORAGE: "resize_ resize_as_",
    _NO_TENSOR: "broadcast_shapes",
    "torch.norm is cut as a norm of vectors; the nuclear one is torch.linalg.matrix_norm": """
        norm.nuc
    """,
    "returns a list inside of a tuple": "histogramdd",
}

WITHOUT = {name: reason for reason, names in _REASONS.items() for name in names.split()}
"""Entry to reason."""
