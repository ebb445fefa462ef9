"""One log replayed: its queue, its run and what it found."""
