"""Run distributed TensorFlow from one file: on a laptop, on Docker hosts, on Kubernetes."""

__version__ = "0.1.0"
