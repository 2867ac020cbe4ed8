"""A registered function as it is called: itself, and where it has no data to run on, its shapes.

    matmul_custom(x, w)                      runs; a try costs nothing, the call about 0.1 µs
    matmul_custom(x.to("meta"), ...)         runs on meta tensors if it can
                                             else the annotation gives the result's shape

Functions that read data (a kernel of a C library, ``.item()``, NumPy) cannot run on meta and fake
tensors, yet tracing needs their shapes. Where torch.compile traces *into* a function, on its way to
machine code, made-up results would become wrong programs: there the function's own error is raised.

The parameters of a function that is registered: their names, and which of them are tensors.

    def operator(x: torch.Tensor, w: torch.Tensor, h: float) -> torch.Tensor: ...
    x, w: tensors    h: another value

Type annotations are read as text: ``torch.Tensor``, ``Optional[torch.Tensor]``, ``Tensor | None``,
``torch.LongTensor`` and ``Float[Tensor, "m k"]`` all tell a tensor.

Results of an operator whose inputs have no data: tensors of the annotated shapes.

    "(h t) k -> h t k", h = 8      x: meta (8*s, 16)      the result: meta (8, s, 16)

Their dtype is what the declaration says, else what the floating inputs promote to, else that of the
first tensor. Gradients of them have the shapes of the inputs.

The promise of a registered function, laid on the arguments of one call.

    @register_op("(h t) k -> h t k")
    def reshape(tensor: torch.Tensor, h: int = 8): ...

    reshape(x)     "(h t) k -> h t k", inputs (x,), arguments {"h": 8}, sizes {"h": "h"}

The first parameters are the annotated inputs, the others are keyword arguments. One whose name is
an identifier of the annotation gives its length, and is made anew from the length on a rank.

Tells torch.compile that a registered function is one operator, without loading its compiler.

Dynamo takes one to two seconds to import, and most programs that register operators never compile.
So what is to be told is kept until somebody imports it.

In a graph a registered function stands as its leaf, also where
the model calls the function that was registered by a call, ``register_op(annotation)(function)``.
"""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import reduce, wraps
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from types import ModuleType
from typing import Any, Literal, cast

import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensor
from torch._subclasses.functional_tensor import FunctionalTensor

from dimsolve.ir.annotation import Annotation
from dimsolve.ir.operator import Declaration, Operator, ReductionName, operator_of
from dimsolve.ir.read_annotation import read_annotation
from dimsolve.partition.rules.rule import TransformRule
from dimsolve.solver.algebra.dims import Call, Function
from dimsolve.solver.algebra.poly import Dim, symbol
from dimsolve.solver.infer import infer, same_named
from dimsolve.solver.layout import identifiers_of

from . import errors

_TENSOR = re.compile(r"\b\w*Tensor\b")
_NONE = re.compile(r"\b(Optional|None|NoneType)\b")
_WHOLE = re.compile(r"\b(Long|Int|Short|Char|Byte)Tensor\b")
_BOOL = re.compile(r"\bBoolTensor\b")


@dataclass(frozen=True, slots=True)
class Parameter:
    """One parameter. ``type``: its annotation as text, "" where there is none."""

    name: str
    type: str
    kind: inspect._ParameterKind
    default: Any = inspect.Parameter.empty

    @property
    def is_tensor(self) -> bool:
        """Whether the annotation tells a tensor."""
        return _TENSOR.search(self.type) is not None

    @property
    def is_optional(self) -> bool:
        """Whether None may stand for the value."""
        return self.default is None or _NONE.search(self.type) is not None

    @property
    def has_default(self) -> bool:
        """Whether a call may leave it out."""
        return self.default is not inspect.Parameter.empty

    @property
    def takes_rest(self) -> bool:
        """Whether it is ``*args`` or ``**kwargs``."""
        return self.kind in (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)

    @property
    def element(self) -> str:
        """What kind of numbers a tensor is said to hold: "whole", "bool" or "real"."""
        if _BOOL.search(self.type):
            return "bool"
        return "whole" if _WHOLE.search(self.type) else "real"


def parameters_of(signature: inspect.Signature) -> tuple[Parameter, ...]:
    """Returns the parameters of a signature in order."""
    return tuple(
        Parameter(p.name, _type_text(p.annotation), p.kind, p.default)
        for p in signature.parameters.values()
    )


def forward_signature(function_class: Any) -> inspect.Signature:
    """Returns the signature of an autograd.Function's ``apply``: forward's, without ctx."""
    signature = inspect.signature(function_class.forward)
    if _sets_up_context(function_class):
        return signature
    parameters = list(signature.parameters.values())
    if parameters and parameters[0].kind is not inspect.Parameter.VAR_POSITIONAL:
        parameters = parameters[1:]
    return signature.replace(parameters=parameters)


def _sets_up_context(function_class: Any) -> bool:
    """Whether ctx goes to ``setup_context``; then ``forward`` has none."""
    for base in function_class.__mro__:
        if "setup_context" in vars(base):
            return not str(base.__module__).startswith("torch.autograd")
    return False


def _type_text(annotation: Any) -> str:
    if annotation is inspect.Parameter.empty:
        return ""
    return annotation if isinstance(annotation, str) else inspect.formatannotation(annotation)


def tensors_in(value: Any) -> Iterator[Tensor]:
    """Yields the tensors among arguments, also inside lists, tuples and dicts."""
    match value:
        case Tensor():
            yield value
        case list() | tuple():
            for item in value:
                yield from tensors_in(item)
        case dict():
            for item in value.values():
                yield from tensors_in(item)


def lack_data(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> bool:
    """Whether a tensor among the arguments has no data: it is on the meta device, or fake."""
    return any(
        t.is_meta or isinstance(t, FakeTensor | FunctionalTensor)
        for t in (*tensors_in(args), *tensors_in(dict(kwargs)))
    )


def outputs_without_data(
    operator: Operator, error: Exception, args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> Any:
    """Returns tensors of the annotated shapes. Raises ``error`` where those cannot be told."""
    if _is_traced_into():
        raise error
    _forget_sizes([*tensors_in(args), *tensors_in(dict(kwargs))])
    declaration = operator.declare(*args, **kwargs)
    lengths = _Lengths()
    shapes = [
        None if not isinstance(given, Tensor) else [lengths.dim(size) for size in given.shape]
        for given in declaration.inputs
    ]
    arguments = same_named(declaration.annotation, declaration.arguments)
    solution = infer(declaration.annotation, shapes, arguments=arguments)
    if solution.free or any(dims is None for dims in solution.output_dims):
        raise error
    tensors = [*tensors_in(args), *tensors_in(dict(kwargs))]
    make: Any = _Shapes.apply
    made = make(
        [[lengths.size(dim) for dim in dims or ()] for dims in solution.output_dims],
        _dtypes(declaration, tensors),
        *tensors,
    )
    return made[0] if len(made) == 1 else made


class _Shapes(torch.autograd.Function):
    """Makes the outputs, and gives them a place in the autograd graph."""

    @staticmethod
    def forward(
        ctx: Any, shapes: list[list[Any]], dtypes: list[torch.dtype], *tensors: Tensor
    ) -> tuple[Tensor, ...]:
        ctx.tensors = tensors
        like = next(t for t in tensors if t.is_meta or isinstance(t, FakeTensor | FunctionalTensor))
        return tuple(
            like.new_empty(shape, dtype=dtype) for shape, dtype in zip(shapes, dtypes, strict=True)
        )

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Any, ...]:
        return (
            None,
            None,
            *(torch.empty_like(t) if t.is_floating_point() else None for t in ctx.tensors),
        )


class _Lengths:
    """Symbolic sizes of torch as symbols of ours, and back."""

    def __init__(self) -> None:
        self._sizes: dict[str, Any] = {}
        self._names: dict[str, str] = {}

    def dim(self, size: Any) -> Dim:
        if isinstance(size, int):
            return size
        name = self._names.setdefault(str(size.node.expr), f"size_{len(self._names)}")
        self._sizes[name] = size
        return symbol(name)

    def size(self, dim: Dim) -> Any:
        return _evaluate(dim, self._sizes)


_FUNCTIONS: dict[Function, Callable[..., Any]] = {
    Function.FLOORDIV: lambda a, b: a // b,
    Function.MOD: lambda a, b: a % b,
    Function.CEILDIV: lambda a, b: -(-a // b),
    # torch does not say what types these two take
    Function.MIN: lambda *sizes: reduce(cast(Any, torch.sym_min), sizes),
    Function.MAX: lambda *sizes: reduce(cast(Any, torch.sym_max), sizes),
}


def _evaluate(dim: Dim, sizes: Mapping[str, Any]) -> Any:
    """The length in torch's symbolic sizes: `dimsolve.solver.algebra.dims.evaluate` for them."""
    if isinstance(dim, int):
        return dim
    total: Any = 0
    for monomial, coefficient in dim.terms.items():
        term: Any = coefficient
        for atom, exponent in monomial:
            if isinstance(atom, Call):
                base = _FUNCTIONS[atom.function](*(_evaluate(a, sizes) for a in atom.arguments))
            else:
                base = sizes[atom]
            term = term * base**exponent
        total = total + term
    return total


def _dtypes(declaration: Declaration, tensors: list[Tensor]) -> list[torch.dtype]:
    real = [t.dtype for t in tensors if t.is_floating_point() or t.is_complex()]
    usual = tensors[0].dtype
    if real:
        usual = real[0]
        for dtype in real[1:]:
            usual = torch.promote_types(usual, dtype)
    named = declaration.dtypes or (None,) * len(read_annotation(declaration.annotation).outputs)
    return [usual if name is None else getattr(torch, name) for name in named]


def _forget_sizes(tensors: list[Tensor]) -> None:
    """Drops the sizes that the failed run has made up from data: no result has them."""
    for tensor in tensors:
        if isinstance(tensor, FakeTensor) and tensor.fake_mode.shape_env is not None:
            tensor.fake_mode.shape_env.pending_fresh_unbacked_symbols.clear()


def _is_traced_into() -> bool:
    """Whether operations are being recorded one by one, so that made-up results would be kept."""
    from torch.fx.experimental.proxy_tensor import get_proxy_mode

    return get_proxy_mode() is not None


@dataclass(frozen=True, slots=True)
class Promise:
    """Gives the Declaration of a call. ``value_split``: names, or numbers, of inputs."""

    name: str
    signature: inspect.Signature
    parameters: tuple[Parameter, ...]
    annotation: str | Callable[..., str]
    value_split: tuple[str | int, ...] = ()
    reduction: ReductionName = "sum"
    transform_rules: tuple[TransformRule, ...] = ()
    writes: list[bool] = field(default_factory=list, compare=False)
    """Holds True once the function was seen to write to its first input and to return that."""

    def note_write(self) -> None:
        """Says that the function writes to its first input, and returns it first."""
        self.writes[:] = [True]

    def __call__(self, *args: Any, **kwargs: Any) -> Declaration:
        """Returns the declaration. Raises OperatorError where the call does not fit."""
        values = self._values(args, kwargs)
        text = self.annotation_for(values)
        annotation = read_annotation(text)
        count = len(annotation.inputs)
        if count > len(values):
            names = [parameter for parameter, _ in values]
            raise errors.too_many_inputs(text, self.name, count, names)
        for parameter, value in values[count:]:
            if is_tensor(value):
                raise errors.unannotated_tensor(text, self.name, parameter)
        inputs = values[:count]
        lengths = _lengths(annotation, values)
        return Declaration(
            annotation=text,
            inputs=tuple(value for _, value in inputs),
            arguments=lengths,
            sizes={name: name for name in lengths},
            value_split=self._summands([name for name, _ in inputs]),
            reduction=self.reduction,
            mutates=(0,) if self.writes and is_tensor(inputs[0][1]) else (),
            returns=_returns(annotation),
            transform_rules=self.transform_rules,
        )

    def annotation_for(self, values: Sequence[tuple[str, Any]]) -> str:
        """Returns the text for these values and the names of their parameters.

        A function of ``(*inputs, **kwargs)`` gets all up to the last tensor as inputs.
        """
        if isinstance(self.annotation, str):
            return self.annotation
        tensors = {
            parameter.name
            for parameter in self.parameters
            if parameter.is_tensor or parameter.kind is inspect.Parameter.VAR_POSITIONAL
        }
        count = max(
            (i + 1 for i, (name, v) in enumerate(values) if name in tensors or is_tensor(v)),
            default=0,
        )
        inputs = [value for _, value in values[:count]]
        try:
            text = self.annotation(*inputs, **dict(values[count:]))
        except Exception as error:
            raise errors.annotation_function_failed(self.name, error) from error
        if not isinstance(text, str):
            raise errors.annotation_function_gave(self.name, text)
        return text

    def _values(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[tuple[str, Any]]:
        """The call's values with the names of their parameters, defaults included, in order."""
        try:
            bound = self.signature.bind(*args, **kwargs)
        except TypeError as error:
            raise errors.call_does_not_fit(self.name, error) from error
        bound.apply_defaults()
        values: list[tuple[str, Any]] = []
        for parameter in self.parameters:
            value = bound.arguments[parameter.name]
            match parameter.kind:
                case inspect.Parameter.VAR_POSITIONAL:
                    values.extend((parameter.name, item) for item in value)
                case inspect.Parameter.VAR_KEYWORD:
                    values.extend(value.items())
                case _:
                    values.append((parameter.name, value))
        return values

    def _summands(self, inputs: Sequence[str]) -> tuple[int, ...]:
        numbers: list[int] = []
        for given in self.value_split:
            if isinstance(given, int) and 0 <= given < len(inputs):
                numbers.append(given)
            elif given in inputs:
                numbers.append(inputs.index(str(given)))
            else:
                raise errors.unknown_value_split(self.name, str(given), inputs)
        return tuple(sorted(numbers))


def is_tensor(value: Any) -> bool:
    """Whether the value is a tensor, or stands for one: it has a shape and a dtype."""
    return hasattr(value, "shape") and hasattr(value, "dtype")


def _lengths(annotation: Annotation, values: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    identifiers = identifiers_of(annotation)
    return {
        name: value
        for name, value in values
        if name in identifiers and value is not None and not is_tensor(value)
    }


def _returns(annotation: Annotation) -> Literal["tensor", "tuple", "nothing"]:
    match len(annotation.outputs):
        case 0:
            return "nothing"
        case 1:
            return "tensor"
        case _:
            return "tuple"


_DYNAMO = "torch._dynamo"
_waiting: list[tuple[Any, Any]] = []


def one_operator(leaf: Any, function: Callable[..., Any] | None = None) -> None:
    """Lets ``leaf`` stand in graphs as it is, and stand there for calls of ``function`` too."""
    if _DYNAMO in sys.modules and not _being_imported():
        _tell(leaf, function)
        return
    if not _waiting:
        sys.meta_path.insert(0, _Watch())
    _waiting.append((leaf, function))


def _being_imported() -> bool:
    spec = sys.modules[_DYNAMO].__spec__
    return bool(getattr(spec, "_initializing", False))


def _tell(leaf: Any, function: Callable[..., Any] | None) -> None:
    import torch

    allow: Any = torch.compiler.allow_in_graph
    allow(leaf)
    if function is None or (function.__module__ or "").partition(".")[0] == "torch":
        return

    def stands_for(*args: Any, **kwargs: Any) -> Any:
        return leaf(*args, **kwargs)

    # ValueError: it was registered before, and the older leaf stands for it just as well.
    with suppress(ValueError):
        torch.compiler.substitute_in_graph(function, skip_signature_check=True)(stands_for)


class _Watch(MetaPathFinder):
    """Sees the import of Dynamo, lets the ordinary finders do it, and tells it what has waited."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname != _DYNAMO:
            return None
        sys.meta_path.remove(self)
        spec = find_spec(fullname)
        if spec is None or spec.loader is None:
            return spec
        run = spec.loader.exec_module

        def exec_module(module: ModuleType) -> None:
            run(module)
            told, _waiting[:] = list(_waiting), []
            for leaf, function in told:
                _tell(leaf, function)

        spec.loader.exec_module = exec_module  # type: ignore[method-assign]  # torch's own loader, and then ours
        return spec


_MARK, _LEAF = "__dimsolve_function__", "__dimsolve_leaf__"


def bare_function(function: Any) -> Any:
    """Returns the function that a leaf stands for; another function is its own."""
    return getattr(function, _MARK, function)


def leaf_function(function: Callable[..., Any]) -> Callable[..., Any]:
    """Returns what is called in the function's place, and tells torch.compile to take it whole.

    A function has one leaf, however often it is registered.
    """
    known: Callable[..., Any] | None = getattr(function, _LEAF, None)
    if known is not None and getattr(known, _MARK, None) is function:
        return known
    bare = getattr(function, "_torchdynamo_orig_callable", None)
    leaf = _leaf(function) if bare is None else _compiled_leaf(function, bare)
    setattr(leaf, _MARK, function)
    setattr(function, _LEAF, leaf)
    one_operator(leaf, function)
    return leaf


def _leaf(function: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(function, updated=())
    def call(*args: Any, **kwargs: Any) -> Any:
        before = _version(args)
        try:
            result = function(*args, **kwargs)
        except Exception as error:
            if not _lack_data(args, kwargs):
                raise
            return _shapes_only(function, error, args, kwargs)
        if before is not None:
            _note_write(function, args, result, before)
        return result

    return call


def _compiled_leaf(function: Callable[..., Any], bare: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(function, updated=())
    def call(*args: Any, **kwargs: Any) -> Any:
        # Compiled code must not see fake tensors: it reads their memory.
        if not _lack_data(args, kwargs):
            return function(*args, **kwargs)
        before = _version(args)
        try:
            result = bare(*args, **kwargs)
        except Exception as error:
            return _shapes_only(function, error, args, kwargs)
        if before is not None:
            _note_write(function, args, result, before)
        return result

    return call


def leaf_class(function_class: Any) -> None:
    """Does the same for the ``apply`` of an autograd.Function class."""
    if _MARK in vars(function_class):
        return
    inherited = super(function_class, function_class).apply.__func__

    def apply(cls: Any, *args: Any, **kwargs: Any) -> Any:
        before = _version(args)
        try:
            result = inherited(cls, *args, **kwargs)
        except Exception as error:
            # A class derived from it has a promise of its own, or none.
            if cls is not function_class or not _lack_data(args, kwargs):
                raise
            return _shapes_only(cls, error, args, kwargs)
        if before is not None:
            _note_write(cls, args, result, before)
        return result

    function_class.apply = classmethod(apply)
    setattr(function_class, _MARK, function_class)
    one_operator(function_class)


def _version(args: tuple[Any, ...]) -> int | None:
    """How often the first argument was written to; None but where a model is traced."""
    torch = sys.modules.get("torch")
    # Dynamo takes the second for True where it traces into this file, and goes no further.
    if (
        torch is None
        or torch.compiler.is_dynamo_compiling()
        or not torch._C._len_torch_dispatch_stack()
        or not args
        or not isinstance(args[0], torch.Tensor)
        or args[0].is_inference()
    ):
        return None
    version: int = args[0]._version
    return version


def _note_write(target: Any, args: tuple[Any, ...], result: Any, before: int) -> None:
    """Notes that a function writes to its first argument and returns it first: a plan lets later
    uses of it read what was written.
    """
    returned = result[0] if isinstance(result, list | tuple) and result else result
    if returned is args[0] and returned._version != before:
        note = getattr(getattr(operator_of(target), "declare", None), "note_write", None)
        if note is not None:
            note()


def sees_write(operator: Operator, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Whether tracing sees that a registered function writes to its first input and returns it
    first. Arguments without data are given, as when a model is traced.
    """
    target: Any = operator.function
    function = getattr(target, "_torchdynamo_orig_callable", target)
    # What it raises without data is nothing that it wrote.
    with suppress(Exception):
        before = _version(args)
        result = function(*args, **kwargs)
        if before is not None:
            _note_write(target, args, result, before)
    return bool(getattr(operator.declare, "writes", ()))


def _lack_data(args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:

    return lack_data(args, kwargs)


def _shapes_only(
    function: Any, error: Exception, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    """The annotation's answer; the error where the function is no operator any more."""

    operator = operator_of(function)
    if operator is None:
        raise error
    return outputs_without_data(operator, error, args, kwargs)
