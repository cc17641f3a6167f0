"""The subcommands of `rankbound`: a module each."""
