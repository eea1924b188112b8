"""How a model knows where a token stands.

Every token is given an id, and a method uses the ids of two places in any of three ways:

    embed    added to the token embedding
    rotate   applied to queries and keys
    bias     added to the attention scores

Which id a token has is a choice of its own: its place in the row, or the place of a digit in its number, so that digits
that are added have the same. Any of IDS goes with any of POSITIONS:

    position coupling               learned vectors, `coupling` ids
    Abacus                          learned vectors, `abacus` ids
    position coupling of levels     learned vectors, `coupling_sums` or `coupling_products` ids: two or three a token

and with `reach`, tokens only see those whose ids are near. A new way is a class in ids.py or methods.py,
its line in the table there and its name in config.
Shapes: B batch, T tokens, S tokens attended to, H heads, K width of one head, D width, N ids of a token. Where a token
has several, ids_BT is BTN, and each of the N is a stream of its own.
"""

from .ids import IDS, Ids
from .methods import POSITIONS, T5, Alibi, Fire, Learned, NoPosition, Position, Rotary, Sinusoidal

__all__ = [
    "IDS",
    "POSITIONS",
    "T5",
    "Alibi",
    "Fire",
    "Ids",
    "Learned",
    "NoPosition",
    "Position",
    "Rotary",
    "Sinusoidal",
]
