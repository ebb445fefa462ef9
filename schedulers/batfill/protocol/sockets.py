"""What both ends do with a ZeroMQ socket: one message at a time, and no waiting for a machine that is gone."""

from __future__ import annotations

import struct

import zmq


def notice_dead_peers(socket: zmq.Socket[bytes]) -> None:
    """Close TCP connections to machines that are gone; a process that merely stands still keeps its own."""
    for option, value in (
        (zmq.TCP_KEEPALIVE, 1),
        (zmq.TCP_KEEPALIVE_IDLE, 3),
        (zmq.TCP_KEEPALIVE_INTVL, 2),
        (zmq.TCP_KEEPALIVE_CNT, 2),
        (zmq.TCP_MAXRT, 7000),  # for what is sent and not acknowledged
    ):
        socket.setsockopt(option, value)


def received_event(monitor: zmq.Socket[bytes]) -> int:
    """The type of the next event of a connection; `zmq.utils.monitor` takes 20 ms to import."""
    kind: int
    kind, _ = struct.unpack("=Hi", monitor.recv_multipart()[0])
    return kind


def received(socket: zmq.Socket[bytes]) -> bytes:
    frame = socket.recv(copy=False)  # which knows whether more follow; to ask the socket took 10 us a message
    if frame.more:
        raise ValueError(f"has {1 + len(socket.recv_multipart())} parts instead of one")
    return frame.bytes
