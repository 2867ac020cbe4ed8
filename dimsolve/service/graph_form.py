"""The form of a graph's JSON, as `Graph.to_json` writes it: checked before anything reads it.

    {"version": 1, "name": "main", "inputs": [...], "nodes": [...], "outputs": {"y": "linear"}, ...}

`dimsolve.ir.graph_json` says what each member means. Arguments are left to its reader.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field

Length: TypeAlias = int | str | None


class Form(BaseModel):
    """The base of all: strict, but later versions may add members."""

    model_config = ConfigDict(strict=True, frozen=True, extra="allow")


class ComputedForm(Form):
    """A shape that an opaque function gives."""

    computed: str
    arguments: list[str | list[Length]]


class TensorForm(Form):
    """Rank, dtype and shape of a tensor, each null where it is not known."""

    rank: Annotated[int, Field(ge=0, le=64)] | None
    dtype: str | None
    shape: list[Length] | ComputedForm | None


class TensorTypeForm(Form):
    """The type of a tensor."""

    tensor: TensorForm


class ShapeTypeForm(Form):
    """The type of a shape."""

    shape: list[Length] | None


class ScalarTypeForm(Form):
    """The type of a number, with its value where it is known."""

    scalar: str
    value: Length


class TupleTypeForm(Form):
    """The type of a tuple."""

    tuple: list[TypeForm]


class ObjectTypeForm(Form):
    """The type of what is no tensor."""

    object: str


class SignatureForm(Form):
    """Parameters and result of a function."""

    parameters: list[TypeForm] | None
    result: TypeForm


class FunctionTypeForm(Form):
    """The type of a function."""

    function: SignatureForm


TypeForm: TypeAlias = (
    TensorTypeForm
    | ScalarTypeForm
    | ShapeTypeForm
    | TupleTypeForm
    | ObjectTypeForm
    | FunctionTypeForm
)


class InputForm(Form):
    """An input of the graph."""

    name: str
    type: TypeForm
    kind: Literal["input", "parameter", "buffer", "constant", "size"]
    target: str


class ValueForm(Form):
    """What a node makes."""

    name: str
    type: TypeForm


class PromiseForm(Form):
    """What a registered operator promises for one call."""

    annotation: str
    inputs: list[Annotated[int, Field(ge=0)] | None]
    arguments: dict[str, Any] = {}
    sizes: dict[str, str] = {}
    value_split: list[int] = []
    reduction: Literal["sum", "max", "min", "prod", "avg"] = "sum"
    frozen: str = ""
    linear: list[list[int]] = []
    mutates: list[int] = []
    random: bool = False
    fresh: list[str] = []
    dtypes: list[str | None] = []
    returns: Literal["tensor", "tuple", "nothing"] = "tensor"
    transform_rules: list[str] = Field(
        default=[], description="rules are functions and stay behind: such a call is not planned"
    )


class NodeForm(Form):
    """A call: of an operator, a function, an external function, or of a shape."""

    id: str
    operator: str = ""
    function: str = ""
    symbols: dict[str, str] = {}
    external: str = ""
    type: TypeForm | None = None
    match_shape: list[Length] = []
    shape: list[Length] = []
    args: list[Any]
    kwargs: dict[str, Any] = {}
    name: str = ""
    several: bool = False
    module: str = ""
    promise: PromiseForm | None = None
    source: Annotated[list[str | int], Field(min_length=3, max_length=3)] | None = None
    outputs: list[ValueForm]


class FunctionForm(Form):
    """A function of a graph, or the graph itself."""

    name: str
    inputs: list[InputForm]
    nodes: list[NodeForm]
    result: Any
    outputs: dict[str, str]
    container: str
    facts: list[str]
    checks: list[Annotated[list[str], Field(min_length=2, max_length=2)]]
    strict: bool
    functions: list[FunctionForm]


class GraphForm(FunctionForm):
    """What `Graph.to_json` writes."""

    version: Literal[1]
