"""What people look at: pictures (`viz`), pages, differences, queries, profiles, memory errors, minimal programs.

Nothing here changes a program that is kept. To add a report, add a package here, a subcommand in `cli`, and its public
name in `hloom/__init__.py`.
"""
