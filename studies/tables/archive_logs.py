"""The archive's logs that the experiments here are made on."""

from __future__ import annotations

# The names in the tables, by file.
LOGS = {
    "KTH-SP2-1996-2.1-cln.swf.gz": "KTH-SP2",
    "SDSC-SP2-1998-4.2-cln.swf.gz": "SDSC-SP2",
    "SDSC-BLUE-2000-4.2-cln.swf.gz": "SDSC-BLUE",
    "CTC-SP2-1996-3.1-cln.swf.gz": "CTC-SP2",
    "HPC2N-2002-2.2-cln.swf.gz": "HPC2N",
    "CEA-Curie-2011-2.1-cln.swf.gz": "CEA-Curie",
}


def by_name(paths):
    """Logs by their names in the tables."""
    return {LOGS.get(path.name, path.name.partition(".")[0]): path for path in paths}
