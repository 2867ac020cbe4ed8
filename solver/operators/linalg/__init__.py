"""Products of matrices and vectors, linear algebra, Fourier transforms."""
