"""The pool plugin: simulates paged KV memory, and the policies that it is compared with."""
