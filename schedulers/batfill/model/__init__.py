"""Jobs, orders, options and figures, as plain data."""
