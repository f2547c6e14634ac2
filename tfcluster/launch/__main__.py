"""The launcher's command line."""

from __future__ import annotations

import argparse
import json
import os
import sys
from typing import List, Optional

from tfcluster.launch.handover import mark_fetched, send_files
from tfcluster.launch.plan import (
    LaunchPlan,
    check_plan,
    control_address,
    output_of,
    program_env,
    read_env_files,
    split_task,
)
from tfcluster.launch.proof import KEY_FILE, read_key
from tfcluster.launch.python import with_python
from tfcluster.launch.task import Task
from tfcluster.launch.wire import ask

ABOUT = "The parent process of a task's program: starts it, restarts it, ends the job by rule."


def count(text: str) -> int:
    """A number or a sum ("2+1"); a part that is not there counts as 0, as in an annotation."""
    return sum(int(part) for part in text.split("+") if part)


def parse_arguments(argv: Optional[List[str]] = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="launcher", description=ABOUT)
    parser.add_argument("--plan", required=True, help="the launch plan, a JSON file")
    parser.add_argument("--key", help="the run's key; control.key beside the plan if not given")
    parser.add_argument("--task", help="which task this is, as in worker-1")
    parser.add_argument("--role", help="the role, with the index from $JOB_COMPLETION_INDEX")
    parser.add_argument("--log", help="write output to log files in this folder, not to stdout")
    parser.add_argument("--record", help="keep the task's state in this JSON file")
    parser.add_argument("--report", action="store_true", help="write the state to stderr as well")
    parser.add_argument("--tell", help="send the task's launcher this message, print its answer")
    parser.add_argument("--send", nargs="*", help="write the task's files to stdout, as a tar")
    parser.add_argument("--limit", type=int, default=1 << 62, help="of --send, in bytes")
    parser.add_argument("--fetched", action="store_true", help="the task's files have arrived")
    parser.add_argument("--events", help="append events to this file, a JSON object per line")
    parser.add_argument("--final", help="write how the task ended to this file")
    parser.add_argument("--attempt", type=count, default=0, help="number of the first start")
    parser.add_argument("--restarts-used", type=count, default=0, help="failures so far")
    parser.add_argument(
        "--exec", nargs=argparse.REMAINDER, metavar="ARG", help="run this as the task would run"
    )
    options = parser.parse_args(argv)
    if bool(options.task) == bool(options.role):
        parser.error("give either --task or --role")
    if options.role:
        options.task = f"{options.role}-{os.environ.get('JOB_COMPLETION_INDEX', '0')}"
    if not options.key:
        options.key = os.path.join(os.path.dirname(options.plan), KEY_FILE)
    return options


def become_command(plan: LaunchPlan, task: str, argv: List[str]) -> int:
    """Run a command with the task's environment in the task's folder, in place of us."""
    role, index = split_task(plan, task)
    entry = plan["roles"][role]
    try:
        env = {**os.environ, **read_env_files(entry.get("env_files", []))}
        env.update(program_env(plan, role, index))
        folder = entry.get("workdir")
        if folder:
            os.chdir(folder)
        argv = with_python(argv, env)
        os.execvpe(argv[0], argv, env)
    except ValueError as error:
        print(error, file=sys.stderr)
        return 126
    except OSError as error:
        print(f"{argv[0]}: {error.strerror}", file=sys.stderr)
        return 127 if isinstance(error, FileNotFoundError) else 126


def read_plan(path: str) -> LaunchPlan:
    with open(path, encoding="utf-8") as file:
        return check_plan(json.load(file))


def main(*argv: str) -> int:
    options = parse_arguments(list(argv))
    at = options.plan
    try:
        plan = read_plan(options.plan)
        if options.send is not None:
            folder = output_of(plan, options.task)
            send_files(folder, options.send or ["*"], options.limit, sys.stdout.buffer)
            sys.stdout.buffer.flush()
            return 0
        if options.fetched:
            mark_fetched()
            return 0
        if options.exec:
            return become_command(plan, options.task, options.exec)
        at = options.key
        key = read_key(options.key)
        at = options.task
        if options.tell:
            address = ("127.0.0.1", control_address(plan, options.task)[1])
            print(json.dumps(ask(address, key, options.task, json.loads(options.tell))))
            return 0
        task = Task(plan, options.task, key, options)
    except (OSError, ValueError, KeyError) as error:
        words = getattr(error, "strerror", None) or error
        print(f"launcher: error: {at}: {words}", file=sys.stderr)
        return 2
    return task.run()


if __name__ == "__main__":
    # Not sys.exit: threads that still talk to peers must neither delay nor garble the end.
    os._exit(main(*sys.argv[1:]))
