"""Python functions, a family to a file, with the arguments that they are called with and what is expected of them."""
