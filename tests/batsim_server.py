"""A scheduler for `batfill conformance`: `batsim_server.py PORT BEHAVIOUR`, a variant's name or a way to be bad."""

from __future__ import annotations

import sys
import time

import zmq

from batfill.batsim.conformance.variants import VARIANTS, Reference

port, behaviour = sys.argv[1:]
if behaviour == "deaf":
    time.sleep(60)
reference = Reference(behaviour if behaviour in VARIANTS else "easy")
with zmq.Context() as context, context.socket(zmq.REP) as socket:
    socket.setsockopt(zmq.LINGER, 1000)
    socket.bind(f"tcp://127.0.0.1:{port}")
    for number in range(1_000_000):
        message = socket.recv()
        reply = reference(message)
        if number == 2:
            if behaviour == "crash":
                raise RuntimeError("it broke")
            if behaviour == "status":
                sys.exit(7)
            if behaviour == "hang":
                time.sleep(60)
        if behaviour == "nonsense":
            reply = b"yes"
        if behaviour == "idle":
            reply = b'{"now": %b, "events": []}' % message[7 : message.index(b",")]
        if behaviour == "busy":
            reply = reply.replace(b'"alloc":"3"', b'"alloc":"0"').replace(b'"alloc":"2"', b'"alloc":"0"')
        socket.send(reply)
        if b'"SIMULATION_ENDS"' in message:
            break
if behaviour == "late":
    sys.exit(5)
