"""From a graph, a mesh and a policy to choices: which identifier each axis cuts, per operator."""
