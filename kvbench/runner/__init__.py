"""Running plans: workers, journal, resume, progress.

The parent owns the plan, the journal and the clock; engines live in worker processes, one for
each engine configuration, and are the only things that load heavy libraries.
"""
