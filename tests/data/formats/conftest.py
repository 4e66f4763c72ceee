import pytest

from small_formats import read_rows


@pytest.fixture
def read_table(tmp_path):
    """Read the content of one file."""

    def read(name, content, format=None, **settings):
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return read_rows(path, format, **settings)

    return read
