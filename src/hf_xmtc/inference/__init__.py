"""A model folder opened and texts scored by it in batches, with the base install."""
