"""Features as people write them: `-0.001*bin*(replaced == 0)`, over the named columns of a table.

Numbers, names, `+ - * / **`, comparisons (1 where they hold, else 0), `and`, `or`, `not`, and a few functions. Nothing
else is evaluated: an expression comes from a command line.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aceirl.data.arrays import FloatArray
from aceirl.errors import InputError, unknown_name

OPERATORS: dict[type, Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.Pow: operator.pow,
    ast.Mod: operator.mod,
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.And: np.logical_and,
    ast.Or: np.logical_or,
}
FUNCTIONS: dict[str, Callable[..., Any]] = {
    "abs": np.abs, "exp": np.exp, "log": np.log, "max": np.maximum, "min": np.minimum, "sqrt": np.sqrt,
}  # fmt: skip


def read_feature(text: str) -> tuple[str, str]:
    """`(name, expression)` of `name=expression`."""
    name, equals, expression = text.partition("=")
    if not equals or not name.strip().isidentifier() or expression.startswith("="):
        raise InputError(f"a feature is written name=expression, such as RC=-(replaced==1); got {text!r}")
    return name.strip(), expression.strip()


def evaluate(expression: str, values: Mapping[str, NDArray[Any]]) -> FloatArray:
    """The expression with arrays for its names; their shapes are broadcast, as `[S, 1]` and `[1, A]` to `[S, A]`."""
    try:
        tree = ast.parse(expression, mode="eval").body
    except SyntaxError as error:
        raise InputError(f"the feature {expression!r} cannot be read: {error.msg}") from None
    with np.errstate(divide="ignore", invalid="ignore"):
        found = np.asarray(_value(tree, values, expression), dtype=np.float64)
    shape = np.broadcast_shapes(*(value.shape for value in values.values()))
    if not np.isfinite(found).all():
        raise InputError(f"the feature {expression!r} is not a finite number everywhere")
    return np.broadcast_to(found, shape)


def _value(node: ast.expr, values: Mapping[str, NDArray[Any]], text: str) -> Any:
    def inner(part: ast.expr) -> Any:
        return _value(part, values, text)

    match node:
        case ast.Constant(value=int() | float() | str() as constant):
            return constant
        case ast.Name(id=name):
            if name not in values:
                column = next((one for one, entries in values.items() if name in entries.ravel().tolist()), None)
                if column is not None:
                    raise InputError(f"{name!r} is a value of {column}: in a feature it has quotes, {column}=='{name}'")
                raise unknown_name("name in a feature", name, [*values, *FUNCTIONS])
            return values[name]
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -np.asarray(inner(operand), dtype=np.float64)
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            return np.logical_not(inner(operand))
        case ast.BinOp(left=left, op=op, right=right) if type(op) in OPERATORS:
            sides = [np.asarray(inner(side)) for side in (left, right)]
            if any(side.dtype.kind in "OUS" for side in sides):
                raise InputError(f"the feature {text!r} calculates with words; compare them with == instead")
            return OPERATORS[type(op)](*(side.astype(np.float64) for side in sides))
        case ast.BoolOp(op=op, values=[first, *rest]):
            found = inner(first)
            for other in rest:
                found = OPERATORS[type(op)](found, inner(other))
            return found
        case ast.Compare(left=left, ops=[op], comparators=[right]) if type(op) in OPERATORS:
            return np.asarray(OPERATORS[type(op)](inner(left), inner(right)), dtype=np.float64)
        case ast.Call(func=ast.Name(id=name), args=arguments, keywords=[]) if name in FUNCTIONS:
            return FUNCTIONS[name](*(np.asarray(inner(argument), dtype=np.float64) for argument in arguments))
    raise InputError(
        f"the feature {text!r} has a part that is not understood: {ast.unparse(node)!r}; use numbers, names, "
        f"+ - * / **, comparisons, and, or, not, and {', '.join(FUNCTIONS)}"
    )
