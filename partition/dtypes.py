"""How many bytes an element has, by the dtype's name."""

from __future__ import annotations

DEFAULT_BYTES = 4


def item_bytes(dtype: str | None) -> int:
    """Returns the bytes of one element; 4 for a dtype that is not known.

    >>> item_bytes("bfloat16"), item_bytes("bool"), item_bytes("float8_e4m3fn")
    (2, 1, 1)
    """
    if dtype is None:
        return DEFAULT_BYTES
    bits = dtype.split("_")[0].lstrip("abcdefghijklmnopqrstuvwxyz")
    if not bits.isdigit():
        return 1 if dtype == "bool" else DEFAULT_BYTES
    return max(int(bits) // 8, 1)
