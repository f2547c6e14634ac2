"""Where the command begins: Ctrl-C has its answer before anything else is imported.

A KeyboardInterrupt is no answer yet. Among imports it prints a traceback, and where it is raised in
a destructor or in a callback of the import system it is printed and forgotten. Until a command
takes over (see interrupts), nothing has been started, so a press ends the process at once.
"""

import _signal  # type: ignore[import-not-found]  # `signal` itself takes longer to import
import os

INTERRUPTED = 130


def leave(number: int, frame: object) -> None:
    """End this process now, as a command that was interrupted."""
    if os.isatty(2):
        os.write(2, b"\n")  # what the terminal shows of the press stands alone
    os._exit(INTERRUPTED)


_signal.signal(_signal.SIGINT, leave)


def main() -> int:
    from tfcluster import cli

    return cli.main()
