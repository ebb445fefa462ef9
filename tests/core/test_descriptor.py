"""Descriptors as robin writes them, and the one line that each mistake in them gets."""

from __future__ import annotations

import pytest

from batfill.runner.descriptor import DescriptorError, read_descriptor

GOOD = """\
batcmd: batsim -p p.xml -w w.json
output-dir: out
schedcmd: ''
simulation-timeout: 604800
ready-timeout: 1.5
success-timeout: 0
failure-timeout: 5
"""
# Nine references to the line before, on each of eight lines: nine to the eighth values in a few hundred bytes.
LAUGHS = "\n  - &a0 [x]\n" + "".join(f"  - &a{i + 1} [{', '.join([f'*a{i}'] * 9)}]\n" for i in range(8))


@pytest.fixture
def read(tmp_path):
    def read_text(text: str | bytes):
        path = tmp_path / "e.yaml"
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return read_descriptor(path)

    return read_text


def test_robins_seven_keys_are_read(read):
    descriptor, digest, notes = read(GOOD)
    assert descriptor.batcmd == "batsim -p p.xml -w w.json"
    assert (descriptor.output_dir, descriptor.schedcmd) == ("out", "")
    assert (descriptor.simulation_timeout, descriptor.ready_timeout) == (604800.0, 1.5)
    assert (descriptor.success_timeout, descriptor.failure_timeout) == (0.0, 5.0)
    assert len(digest) == 64
    assert notes == ()


@pytest.mark.parametrize(
    ("right", "wrong", "said"),
    [
        ("1.5", "'1.5'", "5: ready-timeout must be a number of seconds >= 0, not '1.5'"),
        ("1.5", ".nan", "5: ready-timeout must be a number of seconds >= 0, not nan"),
        (": out", ": ''", "2: output-dir must be the folder for the run's files, not ''"),
        (": out", ': "a\\0b"', "2: output-dir must be the folder for the run's files, not 'a\\x00b'"),
        ("''", '"\\0"', "3: schedcmd must be the command that starts the scheduler"),
        ("''", "[a, b]", "3: schedcmd must be the command that starts the scheduler"),
        ("success-", "sucess-", "6: key sucess-timeout is not one of robin's; did you mean success-timeout"),
        ("output-dir", "output_dir", "2: key output_dir is not one of robin's; did you mean output-dir"),
        ("failure-timeout: 5", "batcmd: x", "7: key batcmd is already on line 1"),
        ("''", "[", "5: not YAML"),
        (GOOD, "", "1: not a descriptor"),
        ("''", LAUGHS, "1: aliases repeat more than 10,000 values; write fewer of them"),
        ("batcmd", "? *a\n", "1: not YAML"),
        ("batcmd", "? [a, b]\n", "1: a key is no text; write one word as the key"),
    ],
)
def test_a_mistake_is_one_line_with_its_place(read, right, wrong, said):
    with pytest.raises(DescriptorError) as caught:
        read(GOOD.replace(right, wrong))
    assert f"e.yaml:{said}" in str(caught.value)
    assert "\n" not in str(caught.value)
