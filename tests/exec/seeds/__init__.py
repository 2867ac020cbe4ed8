"""The examples of the seeds, as they are written there."""
