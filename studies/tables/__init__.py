"""The tables of the results pages, a module each: `python -m studies.tables.first_tries LOG...`."""
