"""The version and the engine that every result names, and the documentation's address; hatch reads the version."""

__version__ = "0.1.0"
ENGINE = "batfill replay"  # all releases at the shadow time count; one pass per whole instant
# The address of the documentation's site, which whoever builds a release enters; without one, pages name the document.
DOCUMENTATION = ""
