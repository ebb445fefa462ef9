"""A scheduler for `batfill conformance`: listens on PLACE, a port or an endpoint, and is a variant, or bad.

    scheduler_process.py PLACE BEHAVIOUR

BEHAVIOUR is a variant's name, or one of the words below.
"""

from __future__ import annotations

import json
import sys
import time

import zmq

from batfill_lab.conformance.variants import VARIANTS, Reference

place, behaviour = sys.argv[1:]
if behaviour == "deaf":
    time.sleep(60)
left = calls = 0
reference = Reference(behaviour if behaviour in VARIANTS else "easy")
with zmq.Context() as context, context.socket(zmq.REP) as socket:
    socket.setsockopt(zmq.LINGER, 1000)
    socket.bind(place if ":" in place else f"tcp://127.0.0.1:{place}")
    for number in range(1_000_000):
        message = socket.recv()
        if behaviour == "every-second":  # a call beside its decisions
            told = json.loads(message)
            others = [event for event in told["events"] if event["type"] != "REQUESTED_CALL"]
            answer = {"now": told["now"], "events": []}
            if others:
                answer = json.loads(reference(json.dumps({**told, "events": others}).encode()))
            kinds = [event["type"] for event in (*others, *answer["events"])]
            left += kinds.count("JOB_SUBMITTED") - kinds.count("JOB_COMPLETED") - kinds.count("REJECT_JOB")
            calls = calls - (len(told["events"]) - len(others))
            if left and not calls:
                calls = 1
                call = {"timestamp": answer["now"], "type": "CALL_ME_LATER", "data": {"timestamp": answer["now"] + 1}}
                answer["events"].append(call)
            reply = json.dumps(answer).encode()
        else:
            reply = b"" if behaviour == "poller" else reference(message)
        if number == 2:
            if behaviour == "crash":
                raise RuntimeError("it broke")
            if behaviour == "status":
                sys.exit(7)
            if behaviour == "hang":
                time.sleep(60)
        if behaviour == "killer" and b'"w0!J"' in message and b"JOB_SUBMITTED" in message:
            kill = {"timestamp": 10.0, "type": "KILL_JOB", "data": {"job_ids": ["w0!A"]}}
            answer = json.loads(reply)
            reply = json.dumps({**answer, "events": [*answer["events"], kill]}).encode()
        if behaviour == "poller":
            now = json.loads(message)["now"]
            call = {"timestamp": now, "type": "CALL_ME_LATER", "data": {"timestamp": now + 30.0}}
            reply = json.dumps({"now": now, "events": [call]}).encode()
        if behaviour == "slow" and number:
            time.sleep(0.4)
        if behaviour == "silent" and b'"w0!H"' in message:
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
