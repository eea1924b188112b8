"""Everything carryon raises on purpose.

* CarryonError            one clear line for the user; the command line prints it and exits with 2
  x UnknownName           a name that is not registered (says what it might have been)
  x BadConfig             a config with values that do not fit; lists all of them
  x Unsupported           two things that do not go together: a format and an operation, say
  x BadOperand            an operand that is not in the operation's domain or not canonical text
  x OutOfProblems         more distinct problems were asked for than exist
  x BadInput              a line of an input file that cannot be used (names the line)
  x BadDataset            a data set on disk that contradicts its manifest, or has none
  x BadRun                a run that is not there, not finished or broken
  x RunMismatch           a run folder that holds another config, or is in use
  x OutOfMemory           a batch that does not fit the device (says which setting to lower)
  x PathExists            an output path that is already there
  x UnknownCharacter      text with a character outside the tokenizer's vocabulary
  x MissingExtra          an optional dependency or file that is not installed
  x ServerRefused         a server's no: a bad key, an unknown model, a request it cannot use
  x ServerFailing         a server that is not there or keeps failing (says what is kept and how to go on)
  x CapReached            a limit on money or requests was reached (says what the rest would take)
  x JobFailed             a fine-tuning job that failed or was cancelled (in its server's words)

A model's wrong answer is data, not an error: `Format.read` returns it, or None.
"""

import difflib
from collections.abc import Iterable


class CarryonError(Exception):
    """Base of everything raised on purpose."""


class UnknownName(CarryonError):
    def __init__(self, kind: str, name: object, choices: Iterable[str]) -> None:
        choices = sorted(choices)
        super().__init__(f"unknown {kind} {name!r}{did_you_mean(name, choices)}; choose from {', '.join(choices)}")


class BadConfig(CarryonError):
    pass


class Unsupported(CarryonError):
    pass


class BadOperand(CarryonError):
    pass


class OutOfProblems(CarryonError):
    def __init__(self, wanted: int, exist: int, why: str, what: str = "distinct problems") -> None:
        self.wanted, self.exist = wanted, exist
        super().__init__(f"{wanted:,} {what} were asked for but only {exist:,} exist ({why})")


class BadInput(CarryonError):
    pass


class BadDataset(CarryonError):
    pass


class BadRun(CarryonError):
    pass


class RunMismatch(CarryonError):
    pass


class OutOfMemory(CarryonError):
    pass


class PathExists(CarryonError):
    pass


class UnknownCharacter(CarryonError):
    pass


class MissingExtra(CarryonError):
    pass


class ServerRefused(CarryonError):
    pass


class ServerFailing(CarryonError):
    pass


class CapReached(CarryonError):
    pass


class JobFailed(CarryonError):
    pass


def did_you_mean(name: object, choices: Iterable[str]) -> str:
    """' (did you mean 'reverse'?)' or ''."""
    close = difflib.get_close_matches(str(name).lower(), list(choices), n=1)
    return f" (did you mean {close[0]!r}?)" if close else ""
