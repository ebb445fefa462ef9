"""Schedules for the Batsim that connects: binds a socket, finds out which Batsim it is, and answers its messages."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from batfill.base.errors import BatfillError, RunFailed
from batfill.batsim.wire import refuse_port
from batfill.live.agent import Agent
from batfill.live.conversation import Conversation, initialisation_text
from batfill.live.words4 import WORDS_4
from batfill.live.words5 import WORDS_5

if TYPE_CHECKING:
    from collections.abc import Mapping

DEFAULT_ENDPOINT = "tcp://127.0.0.1:28000"  # where Batsim connects by default
PATIENCE_S = 10  # wait for a simulator before printing where one should connect
AUTO = "auto"  # the first frame says which


def conversation_with(frame: bytes, agent: Agent, protocol: str = AUTO) -> Conversation:
    """The conversation that begins with this first frame; it is still to be answered.

    Args:
        frame: what Batsim sent first.
        agent: which decides.
        protocol: "4", "5", or "auto" for that of the first frame.

    Raises:
        BatfillError: the frame begins no conversation, or one of the other protocol.
    """
    is_5, is_4 = initialisation_text(frame) is not None, frame.lstrip().startswith(b"{")
    if protocol == AUTO and not (is_5 or is_4):
        raise BatfillError(
            f"message 1 from Batsim is {frame[:100]!r}; Batsim 4 begins with a JSON object, Batsim 5 with a length of "
            "four bytes and a text of that length"
        )
    if (is_5 and protocol == "4") or (is_4 and protocol == "5"):
        raise BatfillError(
            f"option protocol: Batsim {5 if is_5 else 4} has connected; leave it out, or start Batsim {protocol}"
        )
    return Conversation(WORDS_5 if is_5 or protocol == "5" else WORDS_4, agent)


def serve(
    options: Mapping[str, Any], endpoint: str = DEFAULT_ENDPOINT, timeout_ms: int = 0, protocol: str = AUTO
) -> None:
    """Schedule for one simulator that connects to `endpoint`, until its simulation ends.

    Args:
        options: as `Agent`'s.
        endpoint: a ZeroMQ address to bind, as tcp://127.0.0.1:28000; tcp://*:28000 listens on every interface.
        timeout_ms: how long to wait for the simulator's next message once it has sent one; 0 for ever.
        protocol: "4", "5", or "auto" for that of the first frame.

    Raises:
        BatfillError: an option, the endpoint or a message cannot be used.
        RunFailed: the simulator timed out.
    """
    import zmq

    try:
        refuse_port(endpoint)
    except ValueError as error:
        raise BatfillError(f"socket {error}; give another with --socket") from None
    agent = Agent(options)
    with zmq.Context() as context, context.socket(zmq.REP) as socket:
        socket.setsockopt(zmq.LINGER, 1000)
        try:
            socket.bind(endpoint)
        except zmq.ZMQError as error:
            raise BatfillError(
                f"socket {endpoint}: {error}; give another with --socket, as tcp://127.0.0.1:28001, or free this one"
            ) from None
        print(f"batfill: listening on {endpoint}", file=sys.stderr, flush=True)
        if not socket.poll(PATIENCE_S * 1000):
            print(
                f"batfill: no simulator has connected to {endpoint} yet; Batsim connects to tcp://localhost:28000 "
                "unless its --socket-endpoint says otherwise; --socket tcp://*:28000 accepts one from another machine",
                file=sys.stderr,
                flush=True,
            )
        message = socket.recv()
        conversation = conversation_with(message, agent, protocol)
        socket.send(conversation.answer(message))
        socket.setsockopt(zmq.RCVTIMEO, timeout_ms or -1)
        while not conversation.ended:
            try:
                message = socket.recv()
            except zmq.Again:
                raise RunFailed(f"Batsim has not sent a message for {timeout_ms} ms") from None
            socket.send(conversation.answer(message))
