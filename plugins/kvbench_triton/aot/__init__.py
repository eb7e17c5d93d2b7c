"""What compilers make of the kernels for devices that are not here. Never a claim about running."""
