"""How it may be cut: placements, rules, legality, and plans."""
