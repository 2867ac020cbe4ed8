"""Operators as data: what a function promises, and for one call; and the table of registered ones.

An `Operator` is a registered function or an entry of the library. Laid on the arguments of one call
it gives a `Declaration`: the annotation that holds for that call, which values are its annotated
inputs, and how size arguments follow from the lengths on a rank.

    torch.Tensor.view(x, b, s, 8, 64)   x: (b, s, 512)
    Declaration(
        "b s (h d) -> b s h d", (x,), arguments={"h": 8, "d": 64}, sizes={"shape": "b s h d"}
    )

Nothing here needs torch: a tensor is anything with ``shape`` and ``dtype``, real, fake or symbolic.

The table says which operator belongs to a function, a path or a graph's target.

    register(operator, matmul_custom)
    operator_of(matmul_custom).name        "matmul_custom"
    operator_at("custom_ops.operator")     the same by the path it is imported from

The table is keyed by the functions themselves, so that a call of one does not pass through here. A
function that is registered again, by a notebook's cell for one, has its newest promise.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

ReductionName: TypeAlias = Literal["sum", "max", "min", "prod", "avg"]
"""What joins the parts of a ``+`` split."""


@dataclass(frozen=True, slots=True)
class Declaration:
    """What an operator promises for one call.

    annotation: text of the annotation language. inputs: the call's values for the annotated inputs,
    in order (None for an absent optional tensor); a tensor that only lends its dtype or device is
    none of them. arguments: lengths that the inputs do not give (ints, or Dims of the caller's
    symbols). sizes: the call's size parameters by name, each as a tensor of the annotation language
    (``"b s h d"``, a list of lengths) or as one dimension (``"h"``, ``"(2 d)"``, a number); on a
    rank they are made anew from the local lengths. A dotted name reaches inside: ``"index.2.stop"``
    is the stop of the slice at place 2 of the parameter ``index``. fixed: parameters that a rank's
    call must pass with these values, because their default depends on lengths. value_split: inputs,
    by number, that are summands. reduction: what joins the parts of a ``+`` split. frozen: why
    nothing can be split, where nothing can.

    linear: sets of inputs, by number, in which together the outputs are linear (the others being
    fixed): partial sums in all of a set give partial sums out; ``((0, 1),)`` for ``x + y``,
    ``((0,), (1,))`` for ``x * y``. mutates: the annotated inputs, by number, that the call writes
    to. separate: whether the other outputs share no memory with the inputs; asked of registered
    functions. random: whether the call draws random numbers. fresh: identifiers of outputs whose
    length only running can tell (``nonzero``): whoever infers gives each a symbol of its own as an
    argument. dtypes: the outputs' dtypes in order, ``"float32"``, None where not known. returns:
    what Python gets: one tensor; a tuple of them; a ``value`` that is no tensor and is known
    without running (a size); nothing, and the outputs are the inputs in ``mutates`` as they are
    after the call; ``parts``, a tuple of as many tensors as only running tells.

    transform_rules: `TransformRule` for this call; they come before
    the rules that the marks give. empty: whether the function runs where a
    length is 0; of which identifiers, if not of all.

    places: for each input its place in ``Node.operands()``, where a graph holds the call: a value
    may be used twice. needs: what must hold of symbols beyond the annotation, as the solver's
    claims: ``m >= 3`` for the three greatest of m.
    """

    annotation: str
    inputs: tuple[Any, ...]
    arguments: Mapping[str, Any] = field(default_factory=dict)
    sizes: Mapping[str, str] = field(default_factory=dict)
    value_split: tuple[int, ...] = ()
    reduction: ReductionName = "sum"
    frozen: str = ""
    fixed: Mapping[str, Any] = field(default_factory=dict)
    linear: tuple[tuple[int, ...], ...] = ()
    mutates: tuple[int, ...] = ()
    separate: bool = False
    random: bool = False
    fresh: tuple[str, ...] = ()
    dtypes: tuple[str | None, ...] = ()
    returns: Literal["tensor", "tuple", "value", "nothing", "parts"] = "tensor"
    value: Any = None
    transform_rules: tuple[Any, ...] = ()
    empty: bool | tuple[str, ...] = False
    places: tuple[int | None, ...] = ()
    needs: tuple[Any, ...] = ()


@dataclass(frozen=True, slots=True)
class Operator:
    """A function with a promise. ``name``: for policies and plans; ``path``: its import path.

    ``declare(*args, **kwargs)`` gives the Declaration of one call. ``parameters`` are the names of
    the function's parameters in order, ``"*shape"`` for one that takes the rest: where
    ``Declaration.sizes`` finds its places. ``function`` is the function itself where somebody has
    it already, None where it is still to be imported from ``path``. ``defaults`` are those of the
    function, by parameter: a transform rule's modifier sees them too. The rest is what
    `dimsolve.register_op` was given; ``transform_rules`` is for reading only, ``declare`` hands
    them on with each call.
    """

    name: str
    path: str
    declare: Callable[..., Declaration]
    code_impl_pattern: Literal["import", "source"] = "import"
    emit_fn: Callable[..., str] | None = None
    transform_rules: tuple[Any, ...] = ()
    input_gen_fn: Callable[..., Any] | None = None
    mutates: tuple[int, ...] = ()
    parameters: tuple[str, ...] = ()
    function: Callable[..., Any] | None = None
    defaults: Mapping[str, Any] = field(default_factory=dict, hash=False)


_BY_FUNCTION: dict[Any, Operator] = {}
_BY_PATH: dict[str, Operator] = {}


def register(operator: Operator, *functions: Any) -> None:
    """Gives the functions, and the path of the operator, this promise."""
    for function in functions:
        _BY_FUNCTION[function] = operator
    _BY_PATH[operator.path] = operator


def operator_of(target: Any) -> Operator | None:
    """Returns the operator of a function, of an autograd.Function class or its ``apply``, or None.

    ``target`` may also be what `torch.compile` writes into a graph for one of them.
    """
    for candidate in (target, _class_of(target)):
        try:
            found = _BY_FUNCTION.get(candidate)
        except TypeError:  # not hashable, so never registered
            continue
        if found is not None:
            return found
    return None


def operator_at(path: str) -> Operator | None:
    """Returns the operator that was registered with this path, ``"module.function"``."""
    return _BY_PATH.get(path)


def registered() -> tuple[Operator, ...]:
    """Returns all registered operators by path."""
    return tuple(operator for _, operator in sorted(_BY_PATH.items()))


def unregister(operator: Operator) -> None:
    """Forgets an operator; its functions are ordinary functions again. For tests and notebooks."""
    _BY_PATH.pop(operator.path, None)
    for function in [f for f, known in _BY_FUNCTION.items() if known is operator]:
        del _BY_FUNCTION[function]


@dataclass(frozen=True, slots=True)
class ScopedRegistry:
    """Registrations that only hold inside of ``with registry.open(): ...``"""

    by_function: dict[Any, Operator] = field(default_factory=dict)
    by_path: dict[str, Operator] = field(default_factory=dict)

    @contextmanager
    def open(self) -> Iterator[None]:
        """Adds its registrations, and takes over what is registered meanwhile."""
        pairs: Any = ((_BY_FUNCTION, self.by_function), (_BY_PATH, self.by_path))
        before = [dict(registry) for registry, _ in pairs]
        for registry, ours in pairs:
            registry.update(ours)
        try:
            yield
        finally:
            for (registry, ours), old in zip(pairs, before, strict=True):
                ours.update({k: v for k, v in registry.items() if old.get(k) is not v})
                registry.clear()
                registry.update(old)


def _class_of(target: Any) -> Any:
    """The class whose ``apply`` this is: a bound method, or the closure of torch.compile."""
    if getattr(target, "__name__", "") == "apply":
        return getattr(target, "__self__", None)
    if getattr(target, "__name__", "") == "trampoline_autograd_apply":
        cells: tuple[Any, ...] = getattr(target, "__closure__", None) or ()
        return cells[0].cell_contents if cells else None
    return None
