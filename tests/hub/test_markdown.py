import pytest

from hf_xmtc.hub.markdown import code, escaped, hub_link, python_string


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("scope::application R&D, snake_case, C++ 2.0 (x) [y]", "scope::application R&D, snake_case, C++ 2.0 (x) [y]"),
        ("a | b\nc\t d", r"a \| b c d"),
        ("![t](https://x) [a][b]", r"![t\](https\://x) [a\][b]"),
        ("<b> &lt; &#60; *x* `y` ~z~ $m$", r"\<b> \&lt; \&#60; \*x\* \`y\` \~z\~ \$m\$"),
        ("_a_ __init__ a_b", r"\_a\_ \_\_init\_\_ a_b"),
        ("\\| C#", r"\\\| C\#"),
        ("www.example", r"www\.example"),
        ("@user, by @_org me@x.org @ 5 P@1", r"@<!-- -->user, by @<!-- -->\_org me@<!-- -->x.org @ 5 P@1"),
        ("a\x00b\u202ec\udce9", "a\ufffdb\ufffdc\ufffd"),
        ("\u0645\u06cc\u200c\u062e 心 👨‍👩‍👧", "\u0645\u06cc\u200c\u062e 心 👨‍👩‍👧"),
        (3, "3"),
        ("", ""),
    ],
)
def test_text_is_escaped_where_it_would_be_markup(text, shown):
    assert escaped(text) == shown


def test_long_text_is_cut():
    assert escaped("a" * 10_000, 80) == "a" * 79 + "…"
    assert escaped("a" * 80, 80) == "a" * 80


def test_code_holds_any_backticks():
    assert code("a/b") == "`a/b`"
    assert code("a``b`") == "``` a``b` ```"
    assert code("a\n`b` c") == "``a `b` c``"


def test_links_and_strings_hold_any_text():
    assert hub_link("a] b [c", "me/x y)") == r"[a\] b \[c](https://huggingface.co/datasets/me/x%20y%29)"
    assert python_string('a"b\\\n```') == '"a\\"b\\\\ ```"'
