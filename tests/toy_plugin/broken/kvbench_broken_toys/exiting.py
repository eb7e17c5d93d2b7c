"""Leaves the process when it is imported, after a word on stdout."""

import sys

print("goodbye")
sys.exit("this plugin wants another Python")
