"""How a gradient changes a piece of the parameters, right where that piece lives.

Each rule is TensorFlow's own kernel, run on the variable's device without a lock
(`use_locking=False`), so that on a parameter server only the gradient crosses the wire. A slot is
a variable of the parameters' size that the rule remembers from one update to the next.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from trainer.settings import Settings

ADAGRAD_START, ADAGRAD_EPSILON = 0.1, 1e-7
ADAM_BETA1, ADAM_BETA2, ADAM_EPSILON = 0.9, 0.999, 1e-8


@dataclass(frozen=True)
class Optimizer:
    """`apply(variable, slots, gradient, t)` builds the update; t = 1 for the first update."""

    name: str
    slot_starts: tuple[float, ...]
    apply: Callable[[Any, Sequence[Any], Any, Any], Any]


def optimizer_from(settings: Settings) -> Optimizer:
    """The optimizer that the settings name, with their learning rate and momentum."""
    import tensorflow as tf

    eta = settings.learning_rate

    def sgd(x: Any, slots: Sequence[Any], g: Any, t: Any) -> Any:
        # x <- x - eta g
        return tf.raw_ops.ResourceApplyGradientDescent(
            var=x.handle, alpha=eta, delta=g, use_locking=False
        )

    def momentum(x: Any, slots: Sequence[Any], g: Any, t: Any) -> Any:
        # v <- mu v + g;  x <- x - eta v
        return tf.raw_ops.ResourceApplyMomentum(
            var=x.handle,
            accum=slots[0].handle,
            lr=eta,
            grad=g,
            momentum=settings.momentum,
            use_locking=False,
        )

    def adagrad(x: Any, slots: Sequence[Any], g: Any, t: Any) -> Any:
        # a <- a + g^2;  x <- x - eta g / (sqrt(a) + epsilon)
        return tf.raw_ops.ResourceApplyAdagradV2(
            var=x.handle,
            accum=slots[0].handle,
            lr=eta,
            epsilon=ADAGRAD_EPSILON,
            grad=g,
            use_locking=False,
        )

    def adam(x: Any, slots: Sequence[Any], g: Any, t: Any) -> Any:
        # m, v: decayed means of g and g^2;  x <- x - eta_t m / (sqrt(v) + epsilon)
        t = tf.cast(t, tf.float32)
        return tf.raw_ops.ResourceApplyAdam(
            var=x.handle,
            m=slots[0].handle,
            v=slots[1].handle,
            beta1_power=tf.pow(ADAM_BETA1, t),
            beta2_power=tf.pow(ADAM_BETA2, t),
            lr=eta,
            beta1=ADAM_BETA1,
            beta2=ADAM_BETA2,
            epsilon=ADAM_EPSILON,
            grad=g,
            use_locking=False,
        )

    rules = {
        "sgd": Optimizer("sgd", (), sgd),
        "momentum": Optimizer("momentum", (0.0,), momentum),
        "adagrad": Optimizer("adagrad", (ADAGRAD_START,), adagrad),
        "adam": Optimizer("adam", (0.0, 0.0), adam),
    }
    return rules[settings.optimizer]
