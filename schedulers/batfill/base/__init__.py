"""What any program needs: errors, files, kernels, tables, durations in words."""
