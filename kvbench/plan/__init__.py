"""Plans: the cells of a suite, in order, and why the others would not run."""
