"""The wire to the scheduler: ZeroMQ, with an eye on whether anybody is still at its other end."""

from __future__ import annotations

from contextlib import contextmanager
from math import ceil
from typing import TYPE_CHECKING

import zmq
from zmq.utils.monitor import recv_monitor_message

from batfill.batsim.protocol import SimulationStopped

if TYPE_CHECKING:
    from collections.abc import Iterator

# How long an answer that is already on its way may take to arrive after the connection went down.
LAST_WORDS_MS = 200


class SchedulerLink:
    """A request-reply connection to the scheduler, which binds; called with a message, it returns the reply."""

    def __init__(self, endpoint: str, socket: zmq.Socket[bytes], timeout_s: float) -> None:
        self._endpoint = endpoint
        self._socket = socket
        self._timeout_s = timeout_s
        self._monitor = socket.get_monitor_socket(zmq.EVENT_HANDSHAKE_SUCCEEDED | zmq.EVENT_DISCONNECTED)
        self._poller = zmq.Poller()
        self._poller.register(socket, zmq.POLLIN)
        self._poller.register(self._monitor, zmq.POLLIN)
        self._met = False

    def __call__(self, message: bytes) -> bytes:
        """The scheduler's reply to this message.

        Raises:
            SimulationStopped: it is gone, or does not answer in time.
        """
        self._socket.send(message)
        while True:
            ready = dict(self._poller.poll(ceil(self._timeout_s * 1000) or None))
            if self._socket in ready:
                return self._socket.recv()
            if not ready:
                does_not = "does not answer" if self._met else "cannot be reached"
                raise SimulationStopped(
                    f"the scheduler at {self._endpoint} {does_not} for {self._timeout_s:g} s; "
                    "see what it does, or wait longer with --sched-timeout"
                )
            if recv_monitor_message(self._monitor)["event"] != zmq.EVENT_DISCONNECTED:
                self._met = True
            elif not self._socket.poll(LAST_WORDS_MS):
                raise SimulationStopped(
                    f"the scheduler at {self._endpoint} went away without an answer; see why it ended in its own output"
                )

    def close(self) -> None:
        """Stop watching the connection."""
        self._socket.disable_monitor()
        self._monitor.close(linger=0)


@contextmanager
def scheduler_link(endpoint: str, timeout_s: float) -> Iterator[SchedulerLink]:
    """A link to the scheduler that binds this endpoint.

    Args:
        endpoint: such as tcp://localhost:28000.
        timeout_s: how long to wait for it to appear, and for each answer; 0 for ever.

    Raises:
        SimulationStopped: the endpoint cannot be used.
    """
    with zmq.Context() as context, context.socket(zmq.REQ) as socket:
        socket.setsockopt(zmq.LINGER, 0)
        link = SchedulerLink(endpoint, socket, timeout_s)
        try:
            try:
                socket.connect(endpoint)
            except zmq.ZMQError as error:
                raise SimulationStopped(
                    f"{endpoint} cannot be connected to ({error}); check --socket-endpoint"
                ) from None
            yield link
        finally:
            link.close()
