"""The small parent process that every task's program runs under, on every backend.

One file, standard library only, Python 3.8+:
`python launcher.py --plan launch.json --task worker-1`.

It promises:
1. The program starts when the launchers of the peers it needs answer on TCP, with its placeholders
   and TF_CONFIG filled in. A peer that does not come within `start_timeout` is named.
2. Output passes through byte for byte. A program that fails is started again by the role's policy.
3. The job ends by rule. Once the success rule holds, programs that serve for ever are stopped and
   their launchers exit 0. Once a task has failed for the last time, the others stop and say why.
4. The control port answers with state, progress and the last lines; launchers tell each other
   there, and only there, what became of them.

With `--report` the launcher also writes its state into its own output, for engines that keep
nothing but a container's output: lines `tfcluster-state {...}` with the run's id; and a line end
that the program did not write is marked as such.

Messages are one JSON object per line, one question and one answer per connection. Each carries the
run's id, so that a stray launcher of another run is not mistaken for a peer.
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import ctypes
import json
import os
import queue
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Deque, Dict, Iterator, List, NoReturn, Optional, Set, Tuple

EXIT_KILLED = 119  # the program was killed for the last time; see Launcher.final_code
EXIT_PEER_FAILED = 120  # stopped because another task failed; never the first cause
EXIT_NOT_STARTED = 121  # a peer, or the program's own port, did not answer by start_timeout
EXIT_DEADLINE = 124  # the job's deadline passed
EXIT_OUT_OF_MEMORY = 137
PROGRESS = b"tfcluster-progress "
RESULT = b"tfcluster-result "
STATE = b"tfcluster-state "
UNENDED = b"\x1etfcluster-unended"  # before a line end that is ours, not the program's
FINAL_RECORD = 4000  # bytes; Kubernetes keeps 4096 of a termination message
REPORTED = {
    *("state", "reason", "exitCode", "attempt", "restarts", "failures"),
    *("program", "started", "ended", "cause"),
}
DESCRIPTORS = {"stdout": 1, "stderr": 2}
KEPT_LINES = 20
ASK_TIMEOUT = 3.0
RECEIVED = b"\n"  # sent back for an answer, so that its sender knows that it arrived
LINGER = 20.0  # how long a finished launcher tries to reach peers that do not answer
FIRST_PAUSE, LONGEST_PAUSE = 0.2, 10.0  # between restarts, doubling


# -- The launch plan: who is who ---------------------------------------------------------------


def addresses(role: Dict[str, Any], key: str = "addresses") -> List[str]:
    """A role's host:port list; a pattern with {index} keeps plans of many tasks small."""
    given = role[key]
    if isinstance(given, str):
        return [given.replace("{index}", str(index)) for index in range(role["replicas"])]
    return list(given)


def address_at(role: Dict[str, Any], index: int, key: str = "addresses") -> Tuple[str, int]:
    """Host and port of one task, without making the list of all."""
    given = role[key]
    text = given.replace("{index}", str(index)) if isinstance(given, str) else given[index]
    return split_address(text)


def tasks_of(plan: Dict[str, Any], roles: Optional[List[str]] = None) -> List[str]:
    names = plan["roles"] if roles is None else roles
    return [f"{name}-{index}" for name in names for index in range(plan["roles"][name]["replicas"])]


def split_task(plan: Dict[str, Any], task: str) -> Tuple[str, int]:
    role, _, index = task.rpartition("-")
    if role in plan["roles"] and index.isdigit() and int(index) < plan["roles"][role]["replicas"]:
        return role, int(index)
    raise ValueError(f"no task {task!r} in this plan; it has {', '.join(tasks_of(plan)[:20])}")


def control_address(plan: Dict[str, Any], task: str) -> Tuple[str, int]:
    role, index = split_task(plan, task)
    return address_at(plan["roles"][role], index, "control")


def split_address(address: str) -> Tuple[str, int]:
    host, _, port = address.rpartition(":")
    return host.strip("[]"), int(port)


def required_tasks(plan: Dict[str, Any]) -> List[str]:
    """The tasks whose success makes the job a success."""
    return tasks_of(plan, plan["success"])


def tf_config(plan: Dict[str, Any], role: str, index: int) -> str:
    """TF_CONFIG as TensorFlow's TFConfigClusterResolver reads it; the index is an integer."""
    cluster = {name: addresses(plan["roles"][name]) for name in plan["cluster_roles"]}
    return json.dumps({"cluster": cluster, "task": {"type": role, "index": index}})


def placeholders(plan: Dict[str, Any], role: str, index: int) -> Dict[str, str]:
    entry = plan["roles"][role]
    own = addresses(entry)[index]
    names = {
        "JOB": plan["job"],
        "RUN": plan["run"],
        "TASK": f"{role}-{index}",
        "ROLE": role,
        "INDEX": str(index),
        "REPLICAS": str(entry["replicas"]),
        "ADDRESS": own,
        "PORT": str(split_address(own)[1]),
        "LOGDIR": plan.get("logdir") or "",
        "CHECKPOINTS": plan.get("checkpoints") or "",
    }
    for host_role in ("ps", "worker", "chief", "evaluator"):
        hosts = addresses(plan["roles"][host_role]) if host_role in plan["roles"] else []
        names[f"{host_role.upper()}_HOSTS"] = ",".join(hosts)
    return names


def fill(text: str, names: Dict[str, str]) -> str:
    """Replace $(NAME) for known names; $$(NAME) stays as $(NAME), unknown names are left alone."""

    def one(match: re.Match[str]) -> str:
        if match.group(0).startswith("$$"):
            return match.group(0)[1:]
        return names.get(match.group(1), match.group(0))

    return re.sub(r"\$?\$\(([A-Z_]+)\)", one, text)


def program_argv(plan: Dict[str, Any], role: str, index: int) -> List[str]:
    names = placeholders(plan, role, index)
    return [fill(part, names) for part in plan["roles"][role]["argv"]]


def program_env(plan: Dict[str, Any], role: str, index: int) -> Dict[str, str]:
    """What the plan adds to a task's environment, filled in."""
    entry = plan["roles"][role]
    names = placeholders(plan, role, index)
    env = {
        "TF_CONFIG": tf_config(plan, role, index),
        "TFCLUSTER_JOB": plan["job"],
        "TFCLUSTER_RUN": plan["run"],
        "TFCLUSTER_TASK": f"{role}-{index}",
        "TFCLUSTER_ROLE": role,
        "TFCLUSTER_INDEX": str(index),
        "TFCLUSTER_LOGDIR": plan.get("logdir") or "",
        "TFCLUSTER_CHECKPOINTS": plan.get("checkpoints") or "",
        "PYTHONUNBUFFERED": "1",
    }
    if entry.get("mask_gpus"):
        env["CUDA_VISIBLE_DEVICES"] = ""
    env.update(entry.get("task_env", {}).get(str(index), {}))
    env.update({key: fill(value, names) for key, value in entry.get("env", {}).items()})
    return env


def read_env_files(paths: List[str]) -> Dict[str, str]:
    """KEY=VALUE lines; read only when a program starts, so that secrets are stored nowhere."""
    env: Dict[str, str] = {}
    for path in paths:
        with open(path, encoding="utf-8") as file:
            for line in file:
                key, equals, value = line.strip().partition("=")
                if equals and not key.startswith("#"):
                    env[key.strip()] = value.strip().strip("\"'")
    return env


def exit_code_of(returncode: int) -> int:
    """subprocess's negative signal numbers as shells, Docker and Kubernetes write them."""
    return 128 - returncode if returncode < 0 else returncode


def describe_exit(code: int) -> str:
    """An exit code in words."""
    words = {
        0: "finished",
        EXIT_KILLED: "killed by a signal",
        126: "exit code 126 (the command cannot be executed)",
        127: "exit code 127 (command not found)",
        EXIT_PEER_FAILED: "stopped because another task failed",
        EXIT_NOT_STARTED: "not started in time",
        EXIT_DEADLINE: "the job's deadline passed",
    }
    if code in words:
        return words[code]
    if 128 < code < 128 + 65:
        with contextlib.suppress(ValueError):
            name = signal.Signals(code - 128).name
            return f"killed by {name} (exit code {code})"
    return f"exit code {code}"


# -- Talking to launchers ----------------------------------------------------------------------


def ask(
    address: Tuple[str, int], message: Dict[str, Any], timeout: float = ASK_TIMEOUT
) -> Dict[str, Any]:
    """Send a launcher one message and return its answer; OSError or ValueError if it has none."""
    with socket.create_connection(address, timeout=timeout) as connection:
        connection.sendall(json.dumps(message).encode() + b"\n")
        with connection.makefile("rb") as stream:
            answer = json.loads(stream.readline(1 << 20) or b"null")
        if not isinstance(answer, dict):
            raise ValueError("closed the connection without an answer")
        if answer.get("run") != message["run"]:
            raise ValueError(f"belongs to another run ({answer.get('run')})")
        with contextlib.suppress(OSError):  # the other side may be gone: it has said all it had to
            connection.sendall(RECEIVED)
    return answer


def listens(address: Tuple[str, int], timeout: float = 1.0) -> Optional[str]:
    """None if a TCP connection succeeds, else the error in words."""
    try:
        socket.create_connection(address, timeout=timeout).close()
    except OSError as error:
        return error.strerror or str(error)
    return None


# -- The launcher ------------------------------------------------------------------------------


class Stop(Exception):
    """The task is over: state, exit code and reason are settled."""

    def __init__(self, state: str, code: int, reason: str):
        super().__init__(reason)
        self.state, self.code, self.reason = state, code, reason


class Launcher:
    """One task. The main thread decides; other threads only put what they see into `inbox`."""

    def __init__(self, plan: Dict[str, Any], task: str, options: argparse.Namespace):
        self.plan, self.task, self.options = plan, task, options
        self.role, self.index = split_task(plan, task)
        self.entry: Dict[str, Any] = plan["roles"][self.role]
        self.peers = [name for name in tasks_of(plan) if name != task]
        self.required = required_tasks(plan)
        self.inbox: queue.SimpleQueue[Tuple[str, Any]] = queue.SimpleQueue()
        self.output = Output(options.log, task, plan["run"] if options.report else None)
        self.state, self.reason = "pending", ""
        self.exit_code: Optional[int] = None
        self.attempt = options.attempt
        self.failures = options.restarts_used
        self.started = time.time()
        self.ended: Optional[float] = None
        self.program: Optional[subprocess.Popen[bytes]] = None
        self.program_start: Optional[str] = None
        self.finals: Dict[str, Dict[str, Any]] = {}  # the tasks that succeeded
        self.served: Set[str] = set()  # the peers that need nothing more from us
        self.cause: Optional[Dict[str, Any]] = None
        self.lock = threading.Lock()

    # What others may see.

    def snapshot(self) -> Dict[str, Any]:
        return {
            "run": self.plan["run"],
            "job": self.plan["job"],
            "task": self.task,
            "state": self.state,
            "reason": self.reason,
            "exitCode": self.exit_code,
            "attempt": self.attempt,
            "restarts": max(self.attempt, self.failures),
            "failures": self.failures,
            "progress": self.output.progress,
            "result": self.output.result,
            "lines": list(self.output.lines),
            "launcher": {"pid": os.getpid(), "start": process_start(os.getpid())},
            "program": {
                "pid": self.program.pid if self.program else None,
                "start": self.program_start,
            },
            "started": self.started,
            "ended": self.ended,
            "cause": self.cause,
            "finals": self.finals,
        }

    def become(self, state: str, reason: str = "", kind: Optional[str] = None) -> None:
        """Change state; the record on disk is written before anyone is told."""
        self.state, self.reason = state, reason
        if self.options.record:
            write_json(self.options.record, self.snapshot())
        if self.options.report:
            known = self.snapshot()
            report = {key: value for key, value in known.items() if key in REPORTED}
            self.output.report({"kind": kind or state, **report}, "stderr")
        self.note(kind or state, reason)

    def note(self, kind: str, message: str) -> None:
        if self.options.events:
            event = {"time": time.time(), "kind": kind, "task": self.task, "message": message}
            append_line(self.options.events, json.dumps({"schemaVersion": 1, **event}))

    def say(self, text: str) -> None:
        self.output.announce(f"tfcluster: {text}")

    # The life of a task, from top to bottom.

    def run(self) -> int:
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, lambda got, _frame: self.inbox.put(("signal", got)))
        self.output.begin_attempt(self.attempt)
        try:
            self.serve_control()
            self.become("starting", "waiting for peers" if self.entry["needs"] else "")
            self.wait_for_peers()
            threading.Thread(target=self.watch_job, daemon=True).start()
            self.run_until_over()
        except Stop as stop:
            self.finish(stop)
        return self.final_code()

    def final_code(self) -> int:
        """Our own exit code.

        Where somebody replaces killed containers (`--final`), 128+n has to mean that we were killed
        or told to go, and not that the program was, for the last time.
        """
        code = self.exit_code or 0
        return EXIT_KILLED if self.options.final and self.state == "failed" and code > 128 else code

    def wait_for_peers(self) -> None:
        """Until every needed launcher answers (and, with `barrier: ports`, its program listens)."""
        deadline = time.monotonic() + self.plan["start_timeout"]
        waiting = dict.fromkeys(tasks_of(self.plan, self.entry["needs"]), "not asked yet")
        waiting.pop(self.task, None)
        next_notice, pause = time.monotonic() + 2, 0.05
        while waiting:
            for peer, error in self.ask_all(list(waiting), {"ask": "state"}).items():
                address = control_address(self.plan, peer)
                if error is None and self.plan.get("barrier") == "ports":
                    address = self.address_of(peer)
                    error = listens(address)
                if error is None:
                    del waiting[peer]
                else:
                    waiting[peer] = "{} at {}:{}: {}".format(peer, *address, error)
            if not waiting:
                break
            first = next(iter(waiting.values()))
            more = f" (and {len(waiting) - 1} more)" if len(waiting) > 1 else ""
            if time.monotonic() > deadline:
                reason = f"waited {self.plan['start_timeout']:g} s for {first}{more}"
                raise Stop("failed", EXIT_NOT_STARTED, reason)
            if time.monotonic() > next_notice:
                next_notice = time.monotonic() + 10
                self.say(f"waiting for {first}{more}")
            self.handle(self.next_message(pause))
            pause = min(pause * 1.5, 1.0)

    def run_until_over(self) -> None:
        pause = FIRST_PAUSE
        while True:
            code, reason = self.run_program()
            if code is None:
                self.attempt += 1
                self.say("restarting on request")
                self.become("starting", "restarting on request", kind="restarting")
                continue
            if code == 0:
                raise Stop("succeeded", 0, "finished")
            reason = reason or describe_exit(code)
            limit, only = self.entry["restarts"]["limit"], self.entry["restarts"].get("on")
            if self.failures >= limit or (only is not None and code not in only):
                raise Stop("failed", code, reason)
            self.failures += 1
            self.attempt += 1
            self.say(f"{reason}; restart {self.failures} of {limit}")
            self.become("starting", f"restarting after {reason}", kind="restarting")
            self.idle(pause)
            pause = min(pause * 2, LONGEST_PAUSE)

    def run_program(self) -> Tuple[Optional[int], str]:
        """Run the program once, to its end: its exit code and, where known better, the reason.

        The code is None if somebody asked for a restart.
        """
        killed_at = oom_kills()
        pumps = self.start_program()
        if self.entry["listens"]:
            threading.Thread(target=self.watch_own_port, args=(self.program,), daemon=True).start()
        else:
            self.become("serving" if self.entry["serves"] else "running")
        reason, program = "", self.program
        assert program is not None
        try:
            while True:
                kind, value = self.next_message(0.2)
                if kind == "exit" and value is program:
                    break
                if kind == "restart":
                    return None, ""
                if kind == "listening" and value is program:
                    self.become("serving")
                self.handle((kind, value))
                reason = reason or self.enforce_memory()
        finally:
            self.stop_program()
            for pump in pumps:
                pump.join(2)
            self.output.end_attempt()
        code = exit_code_of(program.returncode)
        if code == EXIT_OUT_OF_MEMORY and not reason and oom_kills() > killed_at:
            cap = self.entry.get("memory_cap")
            limit = f", limit {cap // (1 << 20)} MiB" if cap else ""
            reason = f"out of memory: killed by the system (exit code 137{limit})"
        return code, reason

    def start_program(self) -> List[threading.Thread]:
        env = {**os.environ, **read_env_files(self.entry.get("env_files", []))}
        env.update(program_env(self.plan, self.role, self.index))
        env["TFCLUSTER_ATTEMPT"] = str(self.attempt)
        argv = program_argv(self.plan, self.role, self.index)
        self.output.begin_attempt(self.attempt)
        try:
            self.program = subprocess.Popen(
                argv,
                env=env,
                cwd=self.entry.get("workdir") or None,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                preexec_fn=prepare_child(self.entry.get("cpus", {}).get(str(self.index))),
                start_new_session=True,
            )
        except OSError as error:
            code = 127 if isinstance(error, FileNotFoundError) else 126
            where = f" in {self.entry['workdir']}" if self.entry.get("workdir") else ""
            reason = f"cannot start {argv[0]!r}{where}: {error.strerror}"
            self.say(reason)
            raise Stop("failed", code, reason) from None
        self.program_start = process_start(self.program.pid)
        program = self.program
        pumps = []
        for name, pipe in (("stdout", program.stdout), ("stderr", program.stderr)):
            pumps.append(threading.Thread(target=self.output.pump, args=(name, pipe), daemon=True))
            pumps[-1].start()
        threading.Thread(target=self.wait_program, args=(program,), daemon=True).start()
        return pumps

    def wait_program(self, program: subprocess.Popen[bytes]) -> None:
        program.wait()
        self.inbox.put(("exit", program))

    def stop_program(self) -> None:
        """End the program and what it left behind: politely for `stop_grace`, then surely."""
        program = self.program
        if program is None:
            return
        if program.poll() is None:
            signal_group(program.pid, signal.SIGTERM)
            try:
                program.wait(self.plan["stop_grace"])
            except subprocess.TimeoutExpired:
                self.say(f"still there {self.plan['stop_grace']:g} s after SIGTERM; killing it")
        signal_group(program.pid, signal.SIGKILL)
        program.wait()

    def finish(self, stop: Stop) -> None:
        """Settle the final state, put it on disk, then tell every peer that is still there."""
        self.exit_code, self.ended = stop.code, time.time()
        if stop.state == "failed" and self.cause is None:
            self.say(f"failed: {stop.reason}")
            self.cause = {
                "task": self.task,
                "exitCode": stop.code,
                "reason": stop.reason,
                "lines": list(self.output.lines),
                "time": self.ended,
            }
        self.become(stop.state, stop.reason)
        if self.options.final:
            write_final(self.options.final, self.snapshot())
        self.output.close()
        if stop.state == "failed":
            self.tell_peers({"tell": "failed", "cause": self.cause})
        elif stop.state == "succeeded":
            self.learn({"finals": {self.task: {"exitCode": stop.code, "time": self.ended}}})
            self.tell_peers({"tell": "finished", "finals": self.finals})

    def tell_peers(self, message: Dict[str, Any]) -> None:
        """Reach every peer that may still wait for word from us.

        Those who decide about the job try again for a while: a peer that is being replaced just now
        would otherwise never learn that the job is over. A peer that has ended is told once: it may
        be trying to reach us, and would try for as long if we left without a word.
        """
        patient = message["tell"] == "failed" or self.task in self.required
        deadline = time.monotonic() + min(LINGER, self.plan["start_timeout"])
        pause = 0.2
        while True:
            # Who asked us meanwhile knows it already, and may be gone before we reach it.
            errors = self.ask_all([peer for peer in self.peers if peer not in self.served], message)
            left = [peer for peer, error in errors.items() if error is not None]
            self.peers = [peer for peer in left if peer not in self.finals]
            if not self.peers or not patient or time.monotonic() > deadline:
                return
            time.sleep(pause)
            pause = min(pause * 2, 2.0)

    # Messages, and what follows from them.

    def next_message(self, timeout: float) -> Tuple[str, Any]:
        try:
            return self.inbox.get(timeout=timeout)
        except queue.Empty:
            return ("tick", None)

    def idle(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            self.handle(self.next_message(max(0.0, until - time.monotonic())))

    def handle(self, message: Tuple[str, Any]) -> None:
        """Raise Stop if this message, or the clock, ends the task."""
        kind, value = message
        if kind == "signal":
            name = signal.Signals(value).name
            raise Stop("stopped", 128 + value, f"stopped by {name}")
        if kind == "stop":
            raise Stop(*value)
        if self.cause is not None:
            first = self.cause
            raise Stop(
                "stopped",
                EXIT_PEER_FAILED,
                f"stopped because {first['task']} failed ({first['reason']})",
            )
        if all(task in self.finals for task in self.required):
            raise Stop("succeeded", 0, "the job is done")
        deadline = self.plan.get("deadline")
        if deadline is not None and time.time() - self.started > deadline:
            raise Stop("failed", EXIT_DEADLINE, f"the job's deadline of {deadline:g} s passed")

    def learn(self, news: Dict[str, Any]) -> None:
        """Take in what a peer knows; the earliest failure is the one that is kept."""
        with self.lock:
            self.finals = {**self.finals, **(news.get("finals") or {})}
            cause = news.get("cause")
            earlier = cause and (self.cause is None or cause["time"] < self.cause["time"])
            if earlier and self.ended is None:
                self.cause = cause
        self.inbox.put(("news", None))

    def ask_all(self, tasks: List[str], message: Dict[str, Any]) -> Dict[str, Optional[str]]:
        """Put one message to many launchers at once; per task None or the error in words."""
        full = {**message, "run": self.plan["run"], "from": self.task}

        def one(task: str) -> Optional[str]:
            try:
                answer = ask(control_address(self.plan, task), full)
            except (OSError, ValueError) as error:
                return getattr(error, "strerror", None) or str(error)
            self.learn(answer)
            return None

        if not tasks:
            return {}
        with ThreadPoolExecutor(min(32, len(tasks))) as pool:
            return dict(zip(tasks, pool.map(one, tasks)))

    def serve_control(self) -> None:
        port = control_address(self.plan, self.task)[1]
        server = socket.socket()
        server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            server.bind((self.plan.get("bind", "0.0.0.0"), port))
            server.listen(128)
        except OSError as error:
            reason = f"control port {port} cannot be used: {error.strerror}"
            raise Stop("failed", EXIT_NOT_STARTED, reason) from None

        def accept() -> NoReturn:
            while True:
                connection, _ = server.accept()
                threading.Thread(target=self.answer, args=(connection,), daemon=True).start()

        threading.Thread(target=accept, daemon=True).start()

    def answer(self, connection: socket.socket) -> None:
        connection.settimeout(ASK_TIMEOUT)
        stream = connection.makefile("rb")
        with contextlib.suppress(OSError, ValueError), connection, stream:
            message = json.loads(stream.readline(1 << 20) or b"null")
            if not isinstance(message, dict):
                return
            ours = message.get("run") == self.plan["run"]
            ended = ours and message.get("tell") in ("finished", "failed")
            if ended:
                self.learn(message)
            elif ours and message.get("tell") == "restart":
                self.inbox.put(("restart", None))
            answer = self.snapshot()
            connection.sendall(json.dumps(answer).encode() + b"\n")
            peer = message.get("from") if ours else None
            failed = answer["state"] == "failed" and answer["cause"] is not None
            last = ended or failed or self.task in answer["finals"]
            if peer and last and stream.read(1) == RECEIVED:
                self.served.add(str(peer))

    # Watching.

    def address_of(self, task: str) -> Tuple[str, int]:
        role, index = split_task(self.plan, task)
        return address_at(self.plan["roles"][role], index)

    def watch_own_port(self, program: subprocess.Popen[bytes]) -> None:
        """A program that others need must listen by start_timeout, or the task fails."""
        own = self.address_of(self.task)
        deadline = time.monotonic() + self.plan["start_timeout"]
        while program.poll() is None and program is self.program and self.ended is None:
            error = listens(own) and listens(("127.0.0.1", own[1]))
            if error is None:
                self.inbox.put(("listening", program))
                return
            if time.monotonic() > deadline:
                timeout = self.plan["start_timeout"]
                reason = f"nothing listens on port {own[1]} after {timeout:g} s: {error}"
                self.inbox.put(("stop", ("failed", EXIT_NOT_STARTED, reason)))
                return
            time.sleep(0.1)

    def watch_job(self) -> None:
        """Ask those who decide about the job how they are, so that no message can be lost for good.

        Also notices that a needed port cannot be reached from here, and that nobody is left.
        """
        timeout = self.plan["start_timeout"]
        begun = last_answer = time.monotonic()
        unreached = tasks_of(self.plan, self.entry["needs"])
        while self.ended is None:
            open_tasks = [
                task for task in self.required if task != self.task and task not in self.finals
            ]
            time.sleep(max(2.0, len(open_tasks) / 50))
            errors = self.ask_all(open_tasks, {"ask": "state"})
            now = time.monotonic()
            if not errors or None in errors.values():
                last_answer = now
            if self.entry["serves"] and now - last_answer > timeout:
                names = ", ".join(open_tasks[:3])
                reason = f"{names} did not answer for {timeout:g} s"
                self.inbox.put(("stop", ("failed", EXIT_NOT_STARTED, reason)))
            unreached = [peer for peer in unreached if listens(self.address_of(peer))]
            # The peer itself reports first that its program does not listen: it has the cause.
            if unreached and now - begun > timeout * 1.25 + 2:
                where = "{}:{}".format(*self.address_of(unreached[0]))
                reason = f"cannot reach {unreached[0]} at {where}"
                self.inbox.put(("stop", ("failed", EXIT_NOT_STARTED, reason)))

    def enforce_memory(self) -> str:
        """Kill the program if it uses more than its limit; the reason if so."""
        limit = self.entry.get("memory_limit")
        if not limit or self.program is None:
            return ""
        used = group_memory(self.program.pid)
        if used <= limit:
            return ""
        signal_group(self.program.pid, signal.SIGKILL)
        mib = 1 << 20
        return f"out of memory: used {used // mib} MiB of a limit of {limit // mib} MiB"


# -- Output ------------------------------------------------------------------------------------


class Output:
    """Passes bytes on as they come, to our own streams or to a log file per attempt.

    The log file has the form that container engines use, one record per line:
    `2026-01-31T12:00:00.000001Z stdout F text`, with P instead of F where no line end followed.
    """

    def __init__(self, folder: Optional[str], task: str, reported_run: Optional[str] = None):
        self.folder, self.task, self.reported_run = folder, task, reported_run
        self.lines: Deque[str] = collections.deque(maxlen=KEPT_LINES)
        self.progress: Optional[Dict[str, Any]] = None
        self.result: Optional[Dict[str, Any]] = None
        self.partial = {"stdout": b"", "stderr": b""}
        self.unended = {"stdout": False, "stderr": False}
        self.lock = threading.Lock()
        self.file: Optional[int] = None

    def begin_attempt(self, attempt: int) -> None:
        if self.folder:
            with self.lock:
                self.open(attempt)
        self.report({"begin": attempt}, "stdout", "stderr")

    def open(self, attempt: int) -> None:
        if self.file is not None:
            os.close(self.file)
        path = os.path.join(self.folder or "", f"{self.task}.{attempt}.log")
        self.file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)

    def end_attempt(self) -> None:
        """Keep what was written without a line end."""
        for stream in self.partial:
            with self.lock:
                self.break_line(stream)

    def break_line(self, stream: str) -> None:
        """Let what comes next begin a line, without pretending that the program ended its own."""
        rest, self.partial[stream] = self.partial[stream], b""
        if rest:
            self.record(stream, rest, b"P")
        if self.reported_run and self.unended[stream]:
            write_all(DESCRIPTORS[stream], UNENDED + b"\n")
            self.unended[stream] = False

    def report(self, state: Dict[str, Any], *streams: str) -> None:
        """Say something about the task in its own output, where that was asked for."""
        if self.reported_run is None:
            return
        line = STATE + json.dumps({"run": self.reported_run, **state}).encode() + b"\n"
        with self.lock:
            for stream in streams:
                self.break_line(stream)
                write_all(DESCRIPTORS[stream], line)

    def pump(self, stream: str, pipe: Any) -> None:
        with pipe:
            for chunk in iter(lambda: os.read(pipe.fileno(), 1 << 16), b""):
                self.write(stream, chunk)

    def write(self, stream: str, chunk: bytes) -> None:
        with self.lock:
            if self.folder is None:
                write_all(DESCRIPTORS[stream], chunk)
                self.unended[stream] = not chunk.endswith(b"\n")
            *whole, rest = (self.partial[stream] + chunk).split(b"\n")
            for line in whole:
                self.record(stream, line, b"F")
            # A program that never ends its lines must not fill our memory.
            if len(rest) > 1 << 16:
                self.record(stream, rest, b"P")
                rest = b""
            self.partial[stream] = rest

    def announce(self, text: str) -> None:
        """A line of our own, kept apart from the program's lines."""
        with self.lock:
            if self.folder is None:
                if self.reported_run:
                    self.break_line("stderr")
                write_all(DESCRIPTORS["stderr"], text.encode() + b"\n")
            else:
                self.store("stderr", text.encode(), b"F")

    def record(self, stream: str, line: bytes, flag: bytes) -> None:
        if line.startswith(PROGRESS):
            self.progress = parse_object(line[len(PROGRESS) :]) or self.progress
        elif line.startswith(RESULT):
            self.result = parse_object(line[len(RESULT) :]) or self.result
        else:
            self.lines.append(line[:500].decode("utf-8", "replace").rstrip("\r"))
        if self.folder is not None:
            self.store(stream, line, flag)

    def store(self, stream: str, line: bytes, flag: bytes) -> None:
        now = time.time()
        stamp = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(now))
        head = f"{stamp}.{int(now % 1 * 1e6):06d}Z {stream} ".encode()
        assert self.file is not None
        write_all(self.file, head + flag + b" " + line + b"\n")

    def close(self) -> None:
        self.report({"end": True}, "stdout", "stderr")
        with self.lock:
            if self.file is not None:
                os.close(self.file)
            self.file = None


def write_all(descriptor: int, data: bytes) -> None:
    # A reader that went away must not end the program whose output this is.
    with contextlib.suppress(BrokenPipeError):
        while data:
            data = data[os.write(descriptor, data) :]


def parse_object(text: bytes) -> Optional[Dict[str, Any]]:
    try:
        value = json.loads(text)
    except ValueError:
        return None
    return value if isinstance(value, dict) else None


# -- The system underneath ---------------------------------------------------------------------


def write_json(path: str, value: Any) -> None:
    """Write so that a reader, or a crash, never sees half a file."""
    temporary = f"{path}.{os.getpid()}.{threading.get_ident()}.tmp"
    with open(temporary, "w", encoding="utf-8") as file:
        json.dump(value, file)
    os.replace(temporary, path)


def write_final(path: str, snapshot: Dict[str, Any]) -> None:
    """The end of a task in a few kilobytes, for a reader that sees nothing else of us."""
    keys = ("task", "state", "reason", "exitCode", "attempt", "restarts", "result", "progress")
    final = {key: snapshot[key] for key in keys}
    cause = dict(snapshot["cause"] or {})
    while True:
        text = json.dumps({**final, "cause": cause or None}).encode()
        if len(text) <= FINAL_RECORD:
            break
        if cause.get("lines"):
            cause["lines"] = cause["lines"][1:]
        elif final["result"] is not None:
            final["result"] = None  # it is in the output as well
        else:
            text = json.dumps({key: final[key] for key in ("task", "state", "exitCode")}).encode()
            break
    with contextlib.suppress(OSError):
        with open(path, "wb") as file:
            file.write(text)


def append_line(path: str, line: str) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    try:
        os.write(descriptor, line.encode() + b"\n")
    finally:
        os.close(descriptor)


def process_start(pid: int) -> Optional[str]:
    """What tells a process from a later one with the same pid; None if there is no such process."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            fields = file.read().rpartition(b")")[2].split()
        return None if fields[0] in (b"Z", b"X") else fields[19].decode()
    except FileNotFoundError:
        if os.path.isdir("/proc/self"):
            return None
    except OSError:
        return None
    listing = subprocess.run(
        ["ps", "-o", "lstart=", "-p", str(pid)], capture_output=True, text=True, check=False
    )
    return listing.stdout.strip() or None


def signal_group(pid: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, number)


def group_processes(group: int) -> Iterator[int]:
    for name in os.listdir("/proc"):
        if name.isdigit():
            with contextlib.suppress(OSError, IndexError):
                with open(f"/proc/{name}/stat", "rb") as file:
                    if int(file.read().rpartition(b")")[2].split()[2]) == group:
                        yield int(name)


def group_memory(group: int) -> int:
    """Resident bytes of a process group; shared pages count once per process."""
    total = 0
    for pid in group_processes(group):
        with contextlib.suppress(OSError, IndexError):
            with open(f"/proc/{pid}/statm", "rb") as file:
                total += int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    return total


def oom_kills() -> int:
    """How often the kernel has killed for memory in our container's cgroup."""
    for path in ("/sys/fs/cgroup/memory.events", "/sys/fs/cgroup/memory/memory.oom_control"):
        with contextlib.suppress(OSError, ValueError):
            with open(path, encoding="ascii") as file:
                for line in file:
                    if line.startswith("oom_kill "):
                        return int(line.split()[1])
    return 0


def prepare_child(cpus: Optional[List[int]]) -> Any:
    """What the child does before it becomes the program: die with us, stay on its cores."""
    prctl = None
    if sys.platform == "linux":
        with contextlib.suppress(OSError, AttributeError):
            prctl = ctypes.CDLL(None).prctl

    def in_child() -> None:
        if prctl is not None:
            prctl(1, signal.SIGKILL, 0, 0, 0)  # PR_SET_PDEATHSIG
        if cpus:
            os.sched_setaffinity(0, cpus)

    return in_child


# -- The command line --------------------------------------------------------------------------


def count(text: str) -> int:
    """A number or a sum ("2+1"); a part that is not there counts as 0, as in an annotation."""
    return sum(int(part) for part in text.split("+") if part)


def parse_arguments(argv: Optional[List[str]] = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="launcher", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--plan", required=True, help="the launch plan, a JSON file")
    parser.add_argument("--task", help="which task this is, as in worker-1")
    parser.add_argument("--role", help="the role, with the index from $JOB_COMPLETION_INDEX")
    parser.add_argument("--log", help="write output to log files in this folder, not to stdout")
    parser.add_argument("--record", help="keep the task's state in this JSON file")
    parser.add_argument("--report", action="store_true", help="write the state to stderr as well")
    parser.add_argument("--tell", help="send the task's launcher this message, print its answer")
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
    return options


def become_command(plan: Dict[str, Any], task: str, argv: List[str]) -> int:
    """Run a command with the task's environment in the task's folder, in place of us."""
    role, index = split_task(plan, task)
    entry = plan["roles"][role]
    env = {**os.environ, **read_env_files(entry.get("env_files", []))}
    env.update(program_env(plan, role, index))
    try:
        if entry.get("workdir"):
            os.chdir(entry["workdir"])
        os.execvpe(argv[0], argv, env)
    except OSError as error:
        print(f"{argv[0]}: {error.strerror}", file=sys.stderr)
        return 127 if isinstance(error, FileNotFoundError) else 126


def main(argv: Optional[List[str]] = None) -> int:
    options = parse_arguments(argv)
    try:
        with open(options.plan, encoding="utf-8") as file:
            plan = json.load(file)
        if options.tell:
            message = {**json.loads(options.tell), "run": plan["run"]}
            answer = ask(("127.0.0.1", control_address(plan, options.task)[1]), message)
            print(json.dumps(answer))
            return 0
        if options.exec:
            return become_command(plan, options.task, options.exec)
        launcher = Launcher(plan, options.task, options)
    except (OSError, ValueError, KeyError) as error:
        print(f"launcher: error: {options.plan}: {error}", file=sys.stderr)
        return 2
    return launcher.run()


if __name__ == "__main__":
    # Not sys.exit: threads that still talk to peers must neither delay nor garble the end.
    os._exit(main())
