"""Everything of a release but the upload: `make release`."""
