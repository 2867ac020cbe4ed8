"""The prover: from a claim and facts to proved, refuted with a counterexample, or conditional."""
