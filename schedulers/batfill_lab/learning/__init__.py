"""What is fitted or judged on a log: heuristics, classes, and curves of kills."""
