"""For a reader of results: a self-contained HTML page about runs and their comparison, and figures for papers.

Start with `write.write_report`, which finds runs and writes their page. `runs` reads result files; `run_page` and
`comparison_page` make the sections; `comparison` has the paired differences and their intervals; `figures` draws for
papers. `assets` are the page's scripts and styles, which load nothing from elsewhere.

This house uses the core alone.
"""
