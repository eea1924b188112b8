"""What is true: the operations, one file each.

A new operation is a file here and its class in the tuple below; its name joins `OperationName` in config.
"""

from ..errors import UnknownName
from .addition import Addition
from .base import DecimalFunction, IntegerOperation, Operation, Problem, Problems
from .domains import Codes, Domain, Line, Lists, Pairs
from .multiplication import Multiplication
from .sine import Sine
from .square_root import SquareRoot
from .subtraction import Subtraction

OPERATIONS: dict[str, type[Operation]] = {
    operation.name: operation for operation in (Addition, Subtraction, Multiplication, Sine, SquareRoot)
}


def operation(name: str, base: int = 10) -> Operation:
    """operation("add") == Addition()."""
    if name not in OPERATIONS:
        raise UnknownName("operation", name, OPERATIONS)
    return OPERATIONS[name](base)


def parse_question(question: str, base: int = 10) -> Problem | None:
    """The problem behind 128+367 or sin(0.5); None if no operation is asked that way, BadOperand if it cannot be."""
    for kind in OPERATIONS.values():
        operands = kind().parse(question)
        if operands is not None:
            return kind(base).problem(*operands)
    return None


__all__ = [
    "OPERATIONS",
    "Codes",
    "DecimalFunction",
    "Domain",
    "IntegerOperation",
    "Line",
    "Lists",
    "Operation",
    "Pairs",
    "Problem",
    "Problems",
    "operation",
    "parse_question",
]
