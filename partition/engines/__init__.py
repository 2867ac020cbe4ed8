"""Plans of other engines as data: what their words say of placements, and ours in their words."""
