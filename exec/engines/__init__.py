"""Plans of other engines held against a model: what every rank would compute, followed, proved."""
