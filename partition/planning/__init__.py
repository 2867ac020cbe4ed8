"""From a graph, a mesh and a policy to choices: which identifier of each operator each axis cuts."""
