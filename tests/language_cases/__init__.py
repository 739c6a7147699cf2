"""Runs the language-neutral cases of tests/clients/cases through the Python client.

The form of a case, and what each step means, stands in tests/clients/cases/README.md.
"""
