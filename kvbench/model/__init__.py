"""Model specs: the KV geometry of a model, and how it is read from what people have."""
