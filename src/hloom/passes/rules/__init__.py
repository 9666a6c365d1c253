"""The rules of `simplify`, by subject: a family per file, and the queries that families share.

To add a rule, decorate a function in the file of its subject; a family of a new subject is listed in
`passes/simplify.py`. Strict rules keep every number except for rounding. Rules that XLA's defaults allow beyond that
are in families named INEXACT, and rules that only prefer XLA's forms in those named AS_XLA.
"""
