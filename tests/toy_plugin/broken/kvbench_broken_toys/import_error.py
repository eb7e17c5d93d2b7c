"""Needs a module that nobody has."""

import a_module_that_is_not_installed  # noqa: F401
