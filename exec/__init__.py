"""How it runs: tracing, `register_op`, `verify`, programs of ranks, and what ranks do together."""
