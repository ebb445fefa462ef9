"""Files of external events."""

from __future__ import annotations

import pytest

from batfill.base.errors import WorkloadError
from batfill.batsim_files.external_events import read_events

LINES = """\
{"type": "machine_unavailable", "resources": "0-1 3", "timestamp": 20}

{"type": "machine_available", "resources": "3", "timestamp": 30}
{"type": "machine_available", "resources": "0 1", "timestamp": 20}
{"type": "quake", "timestamp": 0, "strength": 5}
"""


def test_events_come_by_date_and_machines_come_back_before_others_go(tmp_path):
    (tmp_path / "a").write_text(LINES)
    (tmp_path / "b").write_text('{"type": "machine_unavailable", "resources": "2", "timestamp": 1.5}')
    events = read_events([tmp_path / "a", tmp_path / "b"], 4, forward_unknown=True)
    assert [(e.date, e.type, e.machines and e.machines.text) for e in events] == [
        (0, "quake", None),
        (1.5, "machine_unavailable", "2"),
        (20, "machine_available", "0-1"),
        (20, "machine_unavailable", "0-1 3"),
        (30, "machine_available", "3"),
    ]
    assert events[0].raw == b'{"type": "quake", "timestamp": 0, "strength": 5}'


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        (b"hello", "JSON is malformed"),
        (b'{"type": "machine_available", "resources": %s}' % (b"[" * 3000 + b"]" * 3000), ""),
        (b"[1]", "Expected `object`"),
        (b'{"type": "machine_available", "resources": "1"}', "Object missing required field `timestamp`"),
        (b'{"type": "machine_available", "resources": "1", "timestamp": -1}', "Expected `float` >= 0.0"),
        (b'{"type": "machine_available", "timestamp": 1}', "'' is not a list of machines"),
        (b'{"type": "machine_available", "resources": "4", "timestamp": 1}', "machine 4 does not exist"),
        (b'{"type": "quake", "timestamp": 1}', "type 'quake' is not known; .*forward.unknown.events"),
    ],
)
def test_a_line_that_is_no_event_is_refused_by_number(line, complaint, tmp_path):
    (tmp_path / "events").write_bytes(b"\n" + line)
    with pytest.raises(WorkloadError, match=f"events: line 2: {complaint}"):
        read_events([tmp_path / "events"], 4)
