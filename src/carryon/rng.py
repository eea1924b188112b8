"""Random numbers addressed by name.

    Stream(0, "train", 17)      the same labels always give the same numbers,
    Stream(1, "train", 17)      other labels an unrelated stream

The numbers are SHAKE-128 of the labels, so they depend on no library's version and no platform, and
no two streams overlap the way seeds 42 and 43 of a counting scheme do.
"""

import hashlib
from typing import Any

import numpy as np
from numpy.typing import NDArray

Label = str | int | None | tuple["Label", ...]


class Stream:
    def __init__(self, *labels: Label) -> None:
        # repr keeps labels apart only for plain Python values: np.int64(3) would silently name another stream than 3.
        for label in _flat(labels):
            if type(label) not in (str, int, type(None)):
                raise TypeError(f"a stream's labels are text, integers or None, not {label!r}")
        self._key = repr(labels).encode()
        self._block = 0

    def words(self, count: int) -> NDArray[np.uint64]:
        """The next `count` 64-bit words."""
        digest = hashlib.shake_128(b"%s#%d" % (self._key, self._block)).digest(8 * count)
        self._block += 1
        return np.frombuffer(digest, dtype="<u8")

    def below(self, limit: int, count: int) -> NDArray[Any]:
        """`count` integers, each exactly uniform on 0 … limit-1; Python integers (dtype object) beyond 64 bits."""
        bits = (limit - 1).bit_length()
        if bits > 63:
            return self._big_below(limit, bits, count)
        if bits == 0:
            return np.zeros(count, np.int64)
        parts: list[NDArray[Any]] = []
        missing = count
        while missing > 0:
            # Rejection, not a modulus: a modulus would favour small numbers. At least half are kept.
            words = self.words(missing + missing // 4 + 16) >> np.uint64(64 - bits)
            parts.append(words[words < limit][:missing])
            missing -= len(parts[-1])
        return np.concatenate(parts).astype(np.int64) if parts else np.zeros(0, np.int64)

    def _big_below(self, limit: int, bits: int, count: int) -> NDArray[Any]:
        width = -(-bits // 64)
        numbers = np.empty(count, object)
        filled = 0
        while filled < count:
            words = self.words(width * (count - filled)).tobytes()
            for start in range(0, len(words), 8 * width):
                number = int.from_bytes(words[start : start + 8 * width], "little") >> (64 * width - bits)
                if number < limit:
                    numbers[filled] = number
                    filled += 1
        return numbers

    def unit(self, count: int) -> NDArray[np.float64]:
        """`count` numbers on [0, 1)."""
        return (self.words(count) >> np.uint64(11)).astype(np.float64) * 2.0**-53

    def permutation(self, count: int) -> NDArray[np.int64]:
        """0 … count-1 in random order."""
        return np.argsort(self.words(count), kind="stable")

    def pick(self, weights: list[float], count: int) -> NDArray[np.int64]:
        """`count` indices into `weights`, each with probability proportional to its weight."""
        edges = np.cumsum(np.array(weights, np.float64))
        places: NDArray[np.int64] = np.searchsorted(edges, self.unit(count) * edges[-1], side="right")
        return np.minimum(places, len(weights) - 1)


def _flat(labels: tuple[Label, ...]) -> list[Label]:
    return [leaf for label in labels for leaf in (_flat(label) if isinstance(label, tuple) else [label])]
