"""One exact search over pure data: options, costs, memory over time, and a proof of the answer."""
