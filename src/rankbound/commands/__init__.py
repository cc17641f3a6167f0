"""The subcommands of `rankbound`, one module each."""
