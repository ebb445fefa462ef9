"""Orders searched, and policies compared: over the weeks of a log, against what is in use."""
