"""Imports a package that nobody installed."""

import a_package_that_is_not_installed

a_package_that_is_not_installed.train()
