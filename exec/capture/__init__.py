"""From a PyTorch model to a graph whose values have symbolic shapes."""
