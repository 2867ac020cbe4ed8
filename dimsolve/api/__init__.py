"""Results as JSON (`results`) and the client of the HTTP service (`client`)."""
