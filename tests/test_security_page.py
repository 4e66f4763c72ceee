"""SECURITY.md names what is there."""

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAGE = (ROOT / "SECURITY.md").read_text(encoding="utf-8")


def test_every_file_and_name_on_the_page_is_there():
    rows = re.findall(r"^\| .* \| (`.*`) \|$", PAGE, flags=re.MULTILINE)
    assert len(rows) >= 8
    for row in rows:
        for names, file in re.findall(r"((?:`\w+`(?: and )?)+) in `([\w/.]+)`", row):
            source = (ROOT / file).read_text(encoding="utf-8")
            for name in re.findall(r"`(\w+)`", names):
                assert re.search(rf"^(def|class) {name}\b", source, flags=re.MULTILINE), (name, file)
    for file in re.findall(r"`(scripts/[\w/.]+)`", PAGE):
        assert (ROOT / file).is_file(), file


def test_no_address_is_invented():
    assert "@" not in PAGE
