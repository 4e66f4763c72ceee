"""Data sets in other people's files. A new format is one module here, and one entry in `registry.FORMATS`.

Nothing is imported here, so that lines of text can be read without pyarrow.
"""
