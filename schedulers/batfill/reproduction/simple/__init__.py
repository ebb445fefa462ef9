"""The CCGrid 2019 paper: simple policies with a threshold in the place of EASY, on resampled logs."""
