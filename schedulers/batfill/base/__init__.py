"""What any program needs: errors, files, processes, tables, intervals."""
