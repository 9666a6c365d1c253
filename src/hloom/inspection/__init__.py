"""Reports on a program: pictures (`viz`), pages, differences, queries, profiles, memory errors, minimal programs.

None of these packages changes the program itself. To add a report, add a package here, a subcommand in `cli`, and its
public name in `hloom/__init__.py`.
"""
