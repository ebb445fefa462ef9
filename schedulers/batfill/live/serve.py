"""Schedules for the Batsim that connects: binds a socket, finds out which Batsim it is, and answers its messages."""

from __future__ import annotations

import math
import stat
import sys
import time
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import zmq

from batfill.base.errors import BatfillError, RunFailed
from batfill.live.agent import Agent
from batfill.live.conversation import Conversation4, Conversation5
from batfill.protocol.batsim5 import handshake_text
from batfill.protocol.endpoints import refuse_port
from batfill.protocol.sockets import notice_dead_peers, received, received_event

if TYPE_CHECKING:
    from collections.abc import Mapping

    from batfill.live.conversation import Conversation

PATIENCE_S = 10  # wait for a simulator before printing where one should connect
RETURN_S = 3.0  # from the end of a connection until its simulator counts as gone
LOOK_S = 1.0  # between looks for it
FAREWELL_MS = 500  # for the message to which a last answer can be given
GONE = "Batsim is gone before the end of the simulation; see why in its own output"
AUTO = "auto"  # the first frame says which


def conversation_with(frame: bytes, agent: Agent, protocol: str = AUTO) -> Conversation:
    """The conversation that begins with this first frame; `protocol`: "4", "5", or "auto" for that of the frame."""
    is_5, is_4 = handshake_text(frame) is not None, frame.lstrip().startswith(b"{")
    if protocol == AUTO and not (is_5 or is_4):
        raise BatfillError(
            f"message 1 from Batsim is {frame[:100]!r}; Batsim 4 begins with a JSON object, Batsim 5 with a length of "
            "four bytes and a text of that length"
        )
    if (is_5 and protocol == "4") or (is_4 and protocol == "5"):
        raise BatfillError(
            f"option protocol: Batsim {5 if is_5 else 4} has connected; leave it out, or start Batsim {protocol}"
        )
    return Conversation5(agent) if is_5 or protocol == "5" else Conversation4(agent)


class Visitors:
    """Counts a bound socket's connections, `here` of which are older, and waits for their messages."""

    def __init__(self, socket: zmq.Socket[bytes], here: int = 0) -> None:
        self._socket = socket
        self._monitor = socket.get_monitor_socket(zmq.EVENT_ACCEPTED | zmq.EVENT_DISCONNECTED)
        self._here = here
        self._left_s = math.inf  # when the last one left
        self._wait_ms = -1  # for how long the socket waits for a message

    def are_gone(self) -> bool:
        """Whether there is no connection any more, and none comes back in time."""
        while self._monitor.poll(0):
            self._here += 1 if received_event(self._monitor) == zmq.EVENT_ACCEPTED else -1
            self._left_s = math.inf if self._here else time.monotonic()
        return time.monotonic() - self._left_s > RETURN_S

    def message(self, timeout_s: float, *, known: bool = True) -> bytes | None:
        deadline_s = time.monotonic() + timeout_s
        while (left_s := deadline_s - time.monotonic()) > 0:
            wait_ms = math.ceil(min(left_s, LOOK_S) * 1000)
            if wait_ms != self._wait_ms:
                self._socket.setsockopt(zmq.RCVTIMEO, wait_ms)
                self._wait_ms = wait_ms
            try:
                return received(self._socket)  # which takes two thirds of the time of a poll before it
            except zmq.Again:
                pass
            except ValueError as error:
                raise BatfillError(f"a message {error}; is it Batsim that is connected?") from None
            if known and self.are_gone():
                raise RunFailed(GONE)
        return None

    def close(self) -> None:
        self._socket.disable_monitor()
        self._monitor.close(linger=0)


def converse(
    socket: zmq.Socket[bytes], visitors: Visitors, frame: bytes, agent: Agent, protocol: str, timeout_ms: int
) -> None:
    """Answer this first frame and all messages after it, up to the simulation's end.

    Whatever else ends it, Batsim gets a last answer with which it ends, too.
    """
    conversation: Conversation = Conversation4(agent) if handshake_text(frame) is None else Conversation5(agent)
    message: bytes | None = frame
    try:
        conversation = conversation_with(frame, agent, protocol)
        while message is not None:
            socket.send(conversation.answer(message))
            if conversation.ended:
                return
            message = visitors.message(timeout_ms / 1000 or math.inf)
        raise RunFailed(f"Batsim has not sent a message for {timeout_ms} ms; end it if it still runs")
    except BaseException as error:
        if not owes_answer(socket) and not visitors.are_gone() and socket.poll(FAREWELL_MS):
            socket.recv_multipart()
        if owes_answer(socket):
            socket.send(conversation.last_answer())
        elif not visitors.are_gone():
            error.add_note("Batsim will wait for this scheduler for ever: end it, too")
        raise


def owes_answer(socket: zmq.Socket[bytes]) -> bool:
    """Whether a message has been received and not been answered; an interrupt may come at any place between the two."""
    return bool(int(socket.getsockopt(zmq.EVENTS)) & zmq.POLLOUT)


def refuse_path(endpoint: str) -> None:
    """Refuse an ipc endpoint whose path is in use, which ZeroMQ would remove; a dead process's socket is free."""
    name = endpoint.removeprefix("ipc://")
    if name == endpoint or name.startswith(("@", "*")):  # these make no file, or one with a new name
        return
    try:
        kind = Path(name).lstat().st_mode
    except (OSError, ValueError):  # ZeroMQ says what is wrong with the path
        return
    if not stat.S_ISSOCK(kind):
        raise ValueError(f"{endpoint}: {name} exists and is no socket")
    import socket

    with socket.socket(socket.AF_UNIX) as probe:
        probe.settimeout(LOOK_S)
        try:
            probe.connect(name)
        except ConnectionRefusedError:
            return
        except OSError as error:
            raise ValueError(f"{endpoint}: {error}") from None
    raise ValueError(f"{endpoint}: another process listens there")


def serve(
    options: Mapping[str, Any], endpoint: str = "tcp://127.0.0.1:28000", timeout_ms: int = 0, protocol: str = AUTO
) -> None:
    """Schedule for one simulator that connects to `endpoint`, until its simulation ends; `options` are `Agent`'s.

    tcp://*:28000 listens on every interface. `timeout_ms`: for each of the simulator's messages, 0 for ever. If an
    option or a message cannot be used, Batsim is sent an answer that ends it.
    """
    try:
        refuse_port(endpoint)
        refuse_path(endpoint)
    except ValueError as error:
        raise BatfillError(f"socket {error}; give another with --socket") from None
    agent = Agent(options)
    with zmq.Context() as context, context.socket(zmq.REP) as socket, closing(Visitors(socket)) as visitors:
        socket.setsockopt(zmq.LINGER, 1000)
        notice_dead_peers(socket)
        try:
            socket.bind(endpoint)
        except zmq.ZMQError as error:
            raise BatfillError(
                f"socket {endpoint}: {error}; give another with --socket, as tcp://127.0.0.1:28001, or free this one"
            ) from None
        print(f"batfill: listening on {endpoint}", file=sys.stderr, flush=True)
        timeout_s = timeout_ms / 1000 or math.inf
        message = visitors.message(min(timeout_s, PATIENCE_S), known=False)
        if message is None and timeout_s > PATIENCE_S:
            print(
                f"batfill: no simulator has connected to {endpoint} yet; Batsim connects to tcp://localhost:28000 "
                "unless its --socket-endpoint says otherwise; --socket tcp://*:28000 accepts one from another "
                "machine",
                file=sys.stderr,
                flush=True,
            )
            message = visitors.message(timeout_s - PATIENCE_S, known=False)
        if message is None:
            raise RunFailed(f"no simulator has sent a message to {endpoint} for {timeout_ms} ms")
        converse(socket, visitors, message, agent, protocol, timeout_ms)
