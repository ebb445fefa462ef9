"""What a simulation costs in its two processes: the scheduler's messages, both processes together, and their starts."""

from __future__ import annotations

import os
import subprocess
import time
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

import zmq
from commands import BATFILL, ran
from logs import KTH, SDSC
from table import Row, time_text
from timing import Case, Setting, timed

from batfill.base.errors import RunFailed
from batfill.batsim_files.platform import homogeneous_platform, read_platform
from batfill.live.agent import Agent
from batfill.live.conversation import Conversation4
from batfill.simulator.simulation import Simulation
from batfill.simulator.wire import SimulationSettings
from batfill.workloads.batsim_json import load_document
from batfill.workloads.convert import convert

if TYPE_CHECKING:
    from collections.abc import Iterator

    from logs import Log

MESSAGE_BAR_S, PAIR_BAR_S, SAMPLE_BAR_S, START_BAR_S = 65e-6, 12.0, 1.5, 0.35
ROOT = Path(__file__).parents[1]
ENDPOINT = "tcp://127.0.0.1:{}"


def free_port() -> int:
    with zmq.Context() as context, context.socket(zmq.REP) as socket:
        return socket.bind_to_random_port("tcp://127.0.0.1")


@contextmanager
def started(*arguments: str) -> Iterator[subprocess.Popen[bytes]]:
    """A batfill command in the background, which is killed if it outlives the block."""
    process = subprocess.Popen([BATFILL, *arguments], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def cpu_s(process: subprocess.Popen[bytes]) -> float:
    """The CPU time of a process over all its threads, once it has ended."""
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise RunFailed(f"{process.args!r}: exit status {process.returncode}")
    return used.ru_utime + used.ru_stime


def inputs(log: Log, setting: Setting) -> tuple[Path, Path]:
    """The log as a Batsim workload, and its platform."""
    workload, platform = setting.folder / f"{log.file}.json", setting.folder / f"{log.file}.xml"
    if not workload.exists():
        convert(log.path, workload)
        platform.write_text(homogeneous_platform(load_document(workload).nb_res))
    return workload, platform


def exchanged(log: Log, policy: str, setting: Setting) -> list[tuple[bytes, bytes]]:
    """Every message of a simulation, with the scheduler's answer."""
    workload, platform = inputs(log, setting)
    conversation = Conversation4(Agent({"policy": policy}))
    messages = []

    def answer(message: bytes) -> bytes:
        messages.append((message, conversation.answer(message)))
        return messages[-1][1]

    documents = {"w0": load_document(workload)}
    Simulation(read_platform(platform), documents, answer, settings=SimulationSettings()).run()
    return messages


def fed(messages: list[tuple[bytes, bytes]], policy: str) -> tuple[float, float]:
    """Seconds until `batfill schedule` has answered the first of these messages, and its CPU time for all."""
    began, endpoint = time.perf_counter(), ENDPOINT.format(free_port())
    with started("schedule", "--policy", policy, "-s", endpoint) as process, zmq.Context() as context:
        with context.socket(zmq.REQ) as socket:
            socket.setsockopt(zmq.RECONNECT_IVL, 5)
            socket.connect(endpoint)
            first_s = 0.0
            for message, expected in messages:
                socket.send(message)
                if socket.recv() != expected:
                    raise RunFailed("batfill schedule answers otherwise than in this process")
                first_s = first_s or time.perf_counter() - began
        return first_s, cpu_s(process)


def schedule(setting: Setting) -> list[Row]:
    messages = exchanged(KTH, "fcfs", setting)
    conversation = Conversation4(Agent({"policy": "fcfs"}))
    inside_s = timed(lambda: [conversation.answer(message) for message, _ in messages]) / len(messages)
    fed(messages, "fcfs")
    rounds = [fed(messages, "fcfs") for _ in range(setting.rounds)]
    first_s, used_s = (median(values) for values in zip(*rounds, strict=True))
    each_s = used_s / len(messages)
    title = f"batfill schedule, {KTH.file}, fcfs, {len(messages):,} messages, CPU time for each"
    return [
        Row(title, time_text(each_s), f"in process {time_text(inside_s)}", each_s, MESSAGE_BAR_S, "s"),
        Row("batfill schedule, from its start to the first answer", time_text(first_s), "-", first_s, START_BAR_S, "s"),
    ]


def simulator_start(setting: Setting) -> list[Row]:
    seconds = median([timed(lambda: ran(BATFILL, "batsim", "--version")) for _ in range(setting.rounds)])
    return [Row("batfill batsim --version", time_text(seconds), "-", seconds, START_BAR_S, "s")]


def pair(log: Log, policy: str, bar: float, setting: Setting) -> list[Row]:
    workload, platform = inputs(log, setting)

    def both() -> tuple[float, float]:
        endpoint = ENDPOINT.format(free_port())
        command = ("batsim", "-p", str(platform), "-w", str(workload), "-e", str(setting.folder / "out"), "-q")
        with (
            started("schedule", "--policy", policy, "-s", endpoint) as scheduler,
            started(*command, "-s", endpoint) as simulator,
        ):
            return cpu_s(simulator), cpu_s(scheduler)

    rounds = [both() for _ in range(setting.rounds)]
    simulator_s, scheduler_s = (median(values) for values in zip(*rounds, strict=True))
    beside = f"simulator {time_text(simulator_s)}, scheduler {time_text(scheduler_s)}"
    total_s = simulator_s + scheduler_s
    return [Row(f"{log.file}, {policy}, CPU time of both", time_text(total_s), beside, total_s, bar, "s")]


def sample(setting: Setting) -> list[Row]:
    command = (BATFILL, "run", "expe/sample_saf.yaml", "--simulator", "embedded", "--json")

    def once() -> float:
        began = time.perf_counter()
        subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
        return time.perf_counter() - began

    once()
    seconds = median([once() for _ in range(setting.rounds)])
    return [Row("batfill run expe/sample_saf.yaml", time_text(seconds), "-", seconds, SAMPLE_BAR_S, "s")]


def cases() -> list[Case]:
    section = "the pair of simulator and scheduler"
    return [
        Case(section, "schedule", schedule),
        Case(section, "simulator's start", simulator_start, quick=True),
        Case(section, "both", partial(pair, SDSC, "saf", PAIR_BAR_S)),
        Case(section, "sample", sample),
    ]
