"""Programs of installed packages: a file for each package, a function for each program.

A program is a function without parameters that yields what is lowered: a function and its arguments, which may be
`jax.ShapeDtypeStruct`. The dump has the file's name and the function's.
"""
