"""What recomputes the papers' tables, figures and simulators; not part of an installation, only of a checkout."""
