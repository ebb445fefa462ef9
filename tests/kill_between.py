"""Starts a scheduler, passes the simulator's messages on to it, and kills one of the run's processes at one of them.

    kill_between.py ENDPOINT VICTIM MESSAGE MOMENT COMMAND...

It stands in schedcmd, between the runner and the scheduler, and ends as the scheduler does. The scheduler listens on
INNER. VICTIM is "scheduler", "simulator", "runner", or "none"; MESSAGE counts from 1; MOMENT is "question", before the
scheduler gets the message, or "answer", before the simulator gets the reply. The number of messages goes to stdout.
"""

from __future__ import annotations

import subprocess
import sys

import psutil
import zmq

INNER = "ipc://inner"
POLL_MS = 20


def victim(name: str, scheduler: subprocess.Popen[bytes]) -> psutil.Process:
    """The process of this run with this name."""
    if name == "scheduler":
        return psutil.Process(scheduler.pid)
    runner = psutil.Process().parent().parent()  # above bash
    if name == "runner":
        return runner
    (simulator,) = (
        process for process in runner.children(recursive=True) if process.cmdline()[3:5] == ["batfill", "batsim"]
    )
    return simulator


def main(endpoint: str, name: str, number: str, moment: str, *command: str) -> None:
    """Pass messages on until the scheduler has ended."""
    scheduler = subprocess.Popen(command)

    def wait_for(socket: zmq.Socket[bytes]) -> bytes:
        while not socket.poll(POLL_MS):
            if (status := scheduler.poll()) is not None:
                print(messages)
                sys.exit(status if status >= 0 else 128 - status)
        return socket.recv()

    def reach(here: str) -> None:
        if (messages, here) == (int(number), moment) and name != "none":
            victim(name, scheduler).kill()

    messages = 0
    with zmq.Context() as context, context.socket(zmq.REP) as simulators, context.socket(zmq.REQ) as schedulers:
        simulators.linger = schedulers.linger = 0
        schedulers.connect(INNER)
        simulators.bind(endpoint)
        while True:
            question = wait_for(simulators)
            messages += 1
            reach("question")
            schedulers.send(question)
            answer = wait_for(schedulers)
            reach("answer")
            simulators.send(answer)


if __name__ == "__main__":
    main(*sys.argv[1:])
