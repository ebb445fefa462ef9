"""The 2019 study of mixed policies: pure policies on weeks, the space of mixed ones, searches, learning."""
