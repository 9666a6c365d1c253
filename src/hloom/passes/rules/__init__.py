"""The rules of `simplify`, by subject: a family per file, and what families ask of nodes.

To add a rule, decorate a function in the file of its subject; a family of a new subject is listed in
`passes/simplify.py`. What keeps every number but for rounding is strict; what XLA's defaults allow
beside stands in the families named INEXACT, what only prefers XLA's forms in those named AS_XLA.
"""
