"""The training loop. Every worker of every algorithm runs this one."""

from __future__ import annotations

from trainer.run import Run


def train(run: Run) -> None:
    """Join the others, make steps until there are no more to make, and leave together.

    A lost parameter server throws the worker back to `join`, where the chief restores the last
    checkpoint and the others wait for it; `done` then looks at counters that may have gone back.
    """
    while True:
        try:
            run.join()
            while not run.done():
                outcome = run.step()
                run.report.step(outcome, run.total)
                run.keep_house()
            run.finish()
            break
        except run.lost_errors as error:
            run.recover(error)
    run.conclude()
