"""Plans of other engines as data: what their words say of placements, and our plans in their words."""
