"""Warm starts: steps forked from one process that has loaded torch, matplotlib and polars, which most steps use.

Snakemake starts a `server` beside itself. A step's process, the `client`, hands its arguments, folder, environment and
standard streams over, the server forks, and the fork runs the step as the client would have. The client waits for the
exit status, and its end is the fork's end. Whatever does not fit (another environment, a system other than Linux, no
server) makes the client run the step itself, with the same results.
"""

VARIABLE = "RANKBOUND_WARM"
"""Environment variable: the name of the server's socket, in Linux' abstract namespace; `OFF` for none."""

OFF = "0"

STARTED = b"!"
"""What the fork sends before it runs the step. After that the client cannot run it any more."""
