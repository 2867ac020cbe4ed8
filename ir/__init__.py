"""What was written: text and its errors, annotations, dimension expressions, types, graphs and operators.

    read_annotation("m k+, k+ n -> m n")     Annotation(inputs=2, outputs=1)
    read_shape("8*s, k")                     (8*s, k)
    read_relation("k % 64 == 0")             k % 64 == 0
"""

from .annotation import Annotation
from .errors import AnnotationError, Diagnostic, DimsolveError, ShapeError
from .read_annotation import parse_annotation, read_annotation
from .read_expression import read_dimension, read_relation, read_relations, read_shape
from .span import Span

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
