"""What one split does to every tensor of an operator: the marks' rules, and those that a rank runs
something else for.
"""
