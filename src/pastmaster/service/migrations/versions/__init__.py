"""One module to each change of the schema."""
