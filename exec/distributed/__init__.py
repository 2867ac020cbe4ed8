"""What ranks do together: communicators, collectives, conversions between placements."""
