"""What was written: text, annotations, dimension expressions, types, graphs and operators.

    read_annotation("m k+, k+ n -> m n").inputs[0]     m k+
    read_shape("8*s, k")                               (8*s, k)
    read_relation("k % 64 == 0")                       k % 64 == 0

This room is the lowest: it knows what text says, and nothing of what must hold.
"""

from .annotation import Annotation
from .errors import AnnotationError, Diagnostic, DimsolveError, ShapeError, Span
from .read_annotation import parse_annotation, read_annotation
from .read_expression import read_dimension, read_relation, read_relations, read_shape

__all__ = [
    "Annotation",
    "AnnotationError",
    "Diagnostic",
    "DimsolveError",
    "ShapeError",
    "Span",
    "parse_annotation",
    "read_annotation",
    "read_dimension",
    "read_relation",
    "read_relations",
    "read_shape",
]
