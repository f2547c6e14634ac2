"""`python -m trainer` trains; `python -m trainer eval --weights X.npz` evaluates saved weights."""

from __future__ import annotations

import gc
import os
import sys
import traceback
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

from trainer.cluster import cluster_from
from trainer.errors import SettingsError, TrainerError
from trainer.phase import enter
from trainer.settings import Arguments, OneLineParser, Settings, parse_arguments

if TYPE_CHECKING:
    from trainer.data import Mnist


def main(argv: Sequence[str] | None = None) -> int:
    """Run one task to its end; the exit code says how it went."""
    argv = sys.argv[1:] if argv is None else list(argv)
    debug = "--debug" in argv
    try:
        if argv[:1] == ["eval"]:
            evaluate_weights(argv[1:])
        else:
            run_task(parse_arguments(argv))
    except TrainerError as error:
        if debug:
            traceback.print_exc()
        print(f"trainer: error: {error}", file=sys.stderr, flush=True)
        return error.exit_code
    except KeyboardInterrupt:
        print("trainer: interrupted", file=sys.stderr, flush=True)
        return 130
    except Exception as error:
        if debug:
            raise
        text = str(error).strip().split("\n")[0]
        print(
            f"trainer: error: {type(error).__name__}: {text} (--debug shows where)",
            file=sys.stderr,
            flush=True,
        )
        return 1
    return 0


def run_task(arguments: Arguments) -> None:
    """Be the task that the flags or TF_CONFIG say this process is."""
    settings = arguments.settings
    cluster = cluster_from(
        arguments.ps_hosts, arguments.worker_hosts, arguments.job_name, arguments.task_index
    )
    if cluster.role == "evaluator":
        raise SettingsError("no algorithm uses an evaluator: the chief evaluates; remove the role")
    from trainer.algorithms import cluster_for, load_algorithm
    from trainer.devices import hide_devices
    from trainer.session import import_tensorflow, serve, set_threads

    algorithm = load_algorithm(settings, cluster)
    cluster = cluster_for(algorithm, cluster)
    hide_devices(cluster, settings)
    # Importing and building make objects that all stay; looking through them takes a while.
    gc.disable()
    if cluster.role in cluster.serving:
        serve(cluster, settings)
    with ThreadPoolExecutor(1) as background:
        # The data are read and checked while TensorFlow, the slow one, is being imported.
        reading = background.submit(_read_data, settings)
        enter("importing TensorFlow")
        import_tensorflow()
        data = reading.result()
    from trainer.job import Job
    from trainer.loop import train
    from trainer.run import Run

    enter("building the graph")
    set_threads(cluster, settings)
    job = Job(settings, cluster, algorithm, data, arguments.logdir, arguments.checkpoints)
    run = getattr(algorithm, "make_run", Run)(job)
    gc.freeze()
    gc.enable()
    train(run)


def _read_data(settings: Settings) -> Mnist:
    if settings.data_url is not None:
        from trainer.download import load_from

        return load_from(settings.data_url, settings.data_dir, settings.validation_size)
    from trainer.data import load_mnist

    return load_mnist(settings.data_dir, settings.validation_size)


def evaluate_weights(argv: Sequence[str]) -> None:
    """Print accuracy and cost of saved weights on the test set."""
    parser = OneLineParser(prog="trainer eval", allow_abbrev=False)
    parser.add_argument("--weights", required=True, type=Path, help="the .npz file to evaluate")
    parser.add_argument("--data_dir", help="folder with the MNIST files")
    parser.add_argument("--debug", action="store_true", help="show tracebacks")
    given = parser.parse_args(list(argv))
    from trainer.checkpoint import read_arrays
    from trainer.data import load_test
    from trainer.models import evaluate
    from trainer.networks import model_of
    from trainer.session import import_tensorflow

    arrays, meta = read_arrays(given.weights)
    model = model_of(meta)
    if arrays["parameters"].shape != (model.size,):
        raise TrainerError(f"{given.weights} does not hold the parameters of a {model.name}")
    test = load_test(given.data_dir)
    import_tensorflow()
    accuracy, cost = evaluate(model, arrays["parameters"], test)
    print(f"Test-Accuracy: {accuracy:.4f}")
    print(f"Test-Cost: {cost:.4f}")


if __name__ == "__main__":
    code = main()
    # TensorFlow's server has no clean end, and waiting for its threads can take seconds.
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)
