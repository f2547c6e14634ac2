"""Distributed training with parameter servers, one process per task, on MNIST.

Where to start reading:

* `loop.py`: the one training loop that every worker runs.
* `algorithms/`: one file per algorithm; its `step` is the update rule of the paper that it names.
* `state.py`: what lives on the parameter servers.
* `models.py`, `layers.py`, `optimizers.py`, `data.py`: pure functions that the algorithms share.
* `layout.py`, `devices.py`: where a graph keeps its parameters and data, and on which devices.
* `networks.py`, `eager.py`: several networks side by side; the loop's verbs for TF2's strategies.
* `run.py`, `session.py`, `checkpoint.py`, `report.py`: joining, surviving, remembering, telling.

`python -m trainer --help` lists every setting; `settings.json` is the table they all come from.
Importing this package imports nothing else: TensorFlow is loaded when training starts.
"""

__version__ = "0.1.0"
