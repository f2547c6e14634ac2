"""The promises that every backend makes, kept by Kubernetes: the same tests, on a real cluster."""

from tests.contract.test_backends import *  # noqa: F403
from tests.contract.test_code import *  # noqa: F403
from tests.contract.test_copy import *  # noqa: F403
from tests.contract.test_hub import *  # noqa: F403
from tests.contract.test_results import *  # noqa: F403
from tests.contract.test_timeline import *  # noqa: F403
