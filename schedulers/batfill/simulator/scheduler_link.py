"""Answers a simulation's messages: a scheduler over ZeroMQ, monitored for disconnects, or none (--no-sched)."""

from __future__ import annotations

from collections import deque
from contextlib import contextmanager
from math import ceil, inf
from typing import TYPE_CHECKING, Any

import orjson
import zmq

from batfill.protocol.sockets import notice_dead_peers, received, received_event
from batfill.simulator.wire import SimulationStopped

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

# Interval between checks of the connection while waiting for a reply.
WATCH_S = 0.25


@contextmanager
def scheduler_link(endpoint: str, timeout_s: float) -> Iterator[Callable[[bytes], bytes]]:
    """Exchanges a message for the reply of the scheduler that binds this endpoint, such as tcp://localhost:28000.

    `timeout_s` is the time to wait for it to connect, and for each reply; 0 for ever. A scheduler that is gone, or does
    not answer in time, raises SimulationStopped. A reply in time costs no more than sending and receiving.
    """
    limit_s = timeout_s or inf
    watch_s = min(WATCH_S, limit_s)
    met = False

    def is_gone() -> bool:
        nonlocal met
        gone = False
        while monitor.poll(0):
            if received_event(monitor) == zmq.EVENT_DISCONNECTED:
                gone = True
            else:
                met = True
        return gone

    def exchange(message: bytes) -> bytes:
        socket.send(message)
        waited_s, gone = 0.0, False
        while True:
            try:
                return received(socket)
            except zmq.Again:
                waited_s += watch_s
            except ValueError as error:
                raise SimulationStopped(f"a message of the scheduler at {endpoint} {error}") from None
            if gone:
                raise SimulationStopped(
                    f"the scheduler at {endpoint} went away without an answer; see why it ended in its own output"
                )
            gone = is_gone()  # its last message may still wait to be received
            if waited_s >= limit_s and not gone:
                raise SimulationStopped(
                    f"the scheduler at {endpoint} {'does not answer' if met else 'cannot be reached'} for "
                    f"{limit_s:g} s; check what it does, or wait longer with --sched-timeout"
                )

    with zmq.Context() as context, context.socket(zmq.REQ) as socket:
        socket.setsockopt(zmq.LINGER, 0)
        socket.setsockopt(zmq.RCVTIMEO, ceil(watch_s * 1000))
        notice_dead_peers(socket)
        monitor = socket.get_monitor_socket(zmq.EVENT_HANDSHAKE_SUCCEEDED | zmq.EVENT_DISCONNECTED)
        try:
            try:
                socket.connect(endpoint)
            except zmq.ZMQError as error:
                raise SimulationStopped(f"{endpoint} cannot be connected to ({error}); check -s") from None
            yield exchange
        finally:
            socket.disable_monitor()
            monitor.close(linger=0)


class NoScheduler:
    """Batsim's --no-sched: one job at a time, in submission order, on the first machines; rejects wider ones."""

    def __init__(self) -> None:
        self._n_machines = 0
        self._waiting: deque[tuple[str, int]] = deque()
        self._busy = False

    def __call__(self, message: bytes) -> bytes:
        received = orjson.loads(message)
        decisions: list[tuple[str, dict[str, Any]]] = []
        for event in received["events"]:
            data = event["data"]
            if event["type"] == "SIMULATION_BEGINS":
                self._n_machines = data["nb_compute_resources"]
            elif event["type"] == "JOB_COMPLETED":
                self._busy = False
            elif event["type"] == "JOB_SUBMITTED" and data["job"]["res"] > self._n_machines:
                decisions.append(("REJECT_JOB", {"job_id": data["job_id"]}))
            elif event["type"] == "JOB_SUBMITTED":
                self._waiting.append((data["job_id"], data["job"]["res"]))
        if self._waiting and not self._busy:
            job_id, res = self._waiting.popleft()
            decisions.append(("EXECUTE_JOB", {"job_id": job_id, "alloc": f"0-{res - 1}" if res > 1 else "0"}))
            self._busy = True
        now = received["now"]
        return orjson.dumps(
            {"now": now, "events": [{"timestamp": now, "type": kind, "data": data} for kind, data in decisions]}
        )
