"""The command line: parse, call, print. What is heavy is imported by the command that needs it."""

import errno
import os
import signal
import sys
from contextlib import suppress
from typing import Annotated

import typer

from ..errors import CarryonError
from . import (
    ask,
    bench,
    data,
    doctor,
    evaluate,
    exchange,
    experiments,
    gallery,
    hosted,
    improve,
    pretrained,
    render,
    report,
    reproduce,
    runs,
    text,
    train,
)

app = typer.Typer(
    help="A laboratory for teaching arithmetic to small transformers.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command("gallery")(gallery.gallery)
app.command("render")(render.render)
app.command("train")(train.train)
app.command("improve")(improve.improve)
app.command("runs")(runs.runs)
app.command("evaluate")(evaluate.evaluate)
app.command("ask")(ask.ask)
app.command("experiments")(experiments.experiments)
app.command("reproduce")(reproduce.reproduce)
app.command("report")(report.report)
app.command("doctor")(doctor.doctor)
app.command("import")(exchange.import_)
app.command("export")(exchange.export)
app.add_typer(data.app, name="data")
app.add_typer(text.app, name="text")
app.add_typer(pretrained.app, name="pretrained")
app.add_typer(bench.app, name="bench")
app.add_typer(hosted.app, name="hosted")


@app.callback(invoke_without_command=True)
def root(version: Annotated[bool, typer.Option("--version", help="Print the version and stop.")] = False) -> None:
    if version:
        from .. import __version__

        print(__version__)
        raise typer.Exit


def _let_threads_sleep() -> None:
    """torch's CPU threads wait by spinning, which on a busy machine makes them wait for each other for whole time
    slices: one other process on two cores made a training step 30 times slower. A short spin is enough to meet again
    on a machine of their own; where they always sleep, a step takes a fifth longer.
    """
    if "OMP_WAIT_POLICY" not in os.environ:
        os.environ["OMP_WAIT_POLICY"] = "PASSIVE"
        os.environ.setdefault("GOMP_SPINCOUNT", "1000")


def main() -> None:
    """Run a command. What goes wrong is one line on stderr, with exit status 2, and no traceback."""
    _let_threads_sleep()
    _make_streams_safe()
    signal.signal(signal.SIGTERM, _stop)
    try:
        if len(sys.argv) == 1:
            sys.argv.append("--help")
        status = app(standalone_mode=False)
        sys.stdout.flush()
    except CarryonError as error:
        status = _fail(str(error))
    except KeyboardInterrupt:
        status = 130
    except BrokenPipeError:
        # The reader has gone (… | head): nothing to say.
        _abandon_stdout()
        status = 141
    except OSError as error:
        status = _fail(_explain(error))
        _abandon_stdout()
    except Exception as error:
        # Wrong usage, as the option parser words it: its exceptions are known by this method.
        if not hasattr(error, "format_message"):
            raise
        status = _fail(f"{error.format_message()} (carryon --help shows how)")
    if status == 130:  # the option parser may have caught it
        _fail("stopped")
    sys.exit(status)


def _stop(number: int, frame: object) -> None:
    """A polite kill: leave through every `finally`, so that nothing half-written stays."""
    sys.exit(143)


def _make_streams_safe() -> None:
    """Output that somebody closed goes nowhere; characters that it cannot show become question marks."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w"))  # noqa: SIM115
        stream = getattr(sys, name)
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")


def _abandon_stdout() -> None:
    """What could not be written will not be written at exit either: Python would try, and exit with 120."""
    with suppress(OSError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _fail(message: str, status: int = 2) -> int:
    print(f"carryon: {' '.join(message.split())}", file=sys.stderr)
    return status


def _explain(error: OSError) -> str:
    where = f" ({error.filename})" if error.filename else ""
    if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
        return f"there is no room to write{where}: {error.strerror}; free some space and try again"
    return f"{error.strerror or error}{where}"
