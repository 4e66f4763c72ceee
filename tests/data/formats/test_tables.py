import pyarrow as pa
import pyarrow.parquet as pq
import pytest


def test_cells_of_several_labels(read_table):
    """AC-17."""
    assert read_table("a.csv", "text,labels\nx,\"['heart attack','flu, type A']\"\n") == [
        ["x", ["heart attack", "flu, type A"]]
    ]
    assert read_table("b.csv", "text,labels\nx,x|y\n", label_separator="|") == [["x", ["x", "y"]]]
    assert read_table("c.csv", "text,labels\nx,abc\n") == [["x", ["abc"]]]
    assert read_table("e.csv", 'text,labels\nx,"3, 5"\n', label_separator=",") == [["x", ["3", "5"]]]
    assert read_table("f.csv", "text,labels\nx,a b  c\n", label_separator=" ") == [["x", ["a", "b", "c"]]]
    assert read_table("g.csv", 'text,labels\nx,"flu, type A"\n', label_separator="") == [["x", ["flu, type A"]]]
    assert read_table("h.csv", "text,labels\nx,a|\n", label_separator="|") == [["x", ["a"]]]
    with pytest.raises(
        ValueError, match=r"i.csv, line 2: the labels 'x\|y' hold '\|'.*label_separator='\|'.*label_separator=''"
    ):
        read_table("i.csv", "text,labels\nx,x|y\n")


@pytest.mark.parametrize(
    ("cell", "labels"),
    [
        ("['heart attack' 'flu']", ["heart attack", "flu"]),  # as pandas writes arrays of numpy
        ("['a'  'b'\n 'c']", ["a", "b", "c"]),
        ("['it\\'s', \"b's\" , u'c',]", ["it's", "b's", "c"]),
        ("[1 23]", ["1", "23"]),
        ("[007, -0]", ["007", "-0"]),
        ('["a", 3]', ["a", "3"]),
        ("[ ]", []),
    ],
)
def test_lists_in_cells(read_table, cell, labels):
    doubled = cell.replace('"', '""')
    assert read_table("a.csv", f'text,labels\nx,"{doubled}"\n') == [["x", labels]]


@pytest.mark.parametrize(
    "cell", ["[0x10, 1_000]", "['a''b']", "['a' ... 'b']", "['a', None]", "[1.5]", "[['a']]", "['\\x']", "[" * 9_999 + "]"]
)
def test_lists_in_cells_that_are_refused(read_table, cell):
    with pytest.raises(ValueError, match="a.csv, line 2: the labels .* are no list of strings .*--label_separator"):
        read_table("a.csv", f'text,labels\nx,"{cell}"\n')


def test_columns_under_other_names(read_table):
    content = "id,title,abstract,topic_1,topic_2\n7,t,a,x,y\n8,t,,z,\n"
    rows = read_table("a.csv", content, text_column="title,abstract", label_column="topic_*")
    assert rows == [["t\na", ["x", "y"]], ["t", ["z"]]]
    with pytest.raises(ValueError, match="a.csv has no column 'body'; its columns are 'id', 'title'.*--text_column"):
        read_table("a.csv", content, text_column="body")
    with pytest.raises(ValueError, match="a.csv has no column 'labels'.*--label_column"):
        read_table("a.csv", content, text_column="title")


@pytest.mark.parametrize("name", ["a.csv", "a.tsv"])
def test_a_table_begins_with_the_names_of_its_columns(read_table, name):
    with pytest.raises(ValueError, match=f"{name}, line 1 is blank, but the first line of a table names its columns"):
        read_table(name, "\ntext\tlabels\nx\ty\n")


@pytest.mark.parametrize("title", ["text", "title"])
def test_a_pattern_of_labels_leaves_the_text_out(read_table, load, tmp_path, title):
    settings = {"text_column": title, "label_column": "t*"}
    rows = [["hello", ["x"]], ["bye", ["y"]]]
    assert read_table("a.csv", f"{title},t1\nhello,x\nbye,y\n", **settings) == rows
    content = f'{{"t1": "x", "{title}": "hello"}}\n{{"{title}": "bye", "t2": ["y"]}}\n'
    assert read_table("a.jsonl", content, **settings) == rows
    content = f'{{"{title}": "hello", "t1": 1}}\n{{"{title}": "bye", "t1": 0}}\n'
    assert read_table("b.jsonl", content, label_format="multi_hot", **settings) == [["hello", ["t1"]], ["bye", []]]
    pq.write_table(pa.table({title: ["hello", "bye"], "t1": ["x", "y"]}), tmp_path / "c.parquet")
    assert load(tmp_path / "c.parquet", validation_fraction=0, **settings)["train"]["labels"][:] == [[0], [1]]
    with pytest.raises(ValueError, match=r"a.csv has no column 't\*'"):
        read_table("a.csv", f"{title},y1\nhello,x\n", **settings)


def test_one_of_several_columns_may_hold_a_list(read_table):
    rows = [["a", ["x", "y", "flu, type A"]]]
    assert read_table("a.csv", "text,l1,l2\na,\"['x','y']\",\"flu, type A\"\n", label_column="l1,l2") == rows
    for first in ('["x", "y"]', "\"['x', 'y']\""):
        line = f'{{"text": "a", "l1": {first}, "l2": "flu, type A"}}\n'
        assert read_table("a.jsonl", line, label_column="l1,l2") == rows
    whole = read_table("a.csv", "text,l1,l2\na,['x'],z\n", label_column="l1,l2", label_separator="")
    assert whole == [["a", ["['x']", "z"]]]


def test_texts_are_joined_in_the_order_of_the_option(read_table):
    content = "abstract,title,labels\na,t,x\n"
    assert read_table("a.csv", content, text_column="title,abstract") == [["t\na", ["x"]]]
    assert read_table("a.csv", content.replace("t,x", "t,"), text_column="title,a*") == [["t\na", []]]


@pytest.mark.parametrize("option", ["text_column", "label_column"])
def test_one_misspelt_column_of_several_is_refused(read_table, option):
    names = {"text_column": "title,abstrct", "label_column": "labels,lables"}[option]
    settings = {"text_column": "title,abstract", option: names}
    for name, content in (
        ("a.csv", "title,abstract,labels\nt,a,x\n"),
        ("a.jsonl", '{"title": "t", "abstract": "a", "labels": ["x"]}\n'),
    ):
        with pytest.raises(ValueError, match=f"{name} has no column '{names}'; its columns are 'title', 'abstract'"):
            read_table(name, content, **settings)


def test_keys_that_not_every_object_has(read_table):
    lines = [
        '{"title": "t", "topic_1": "x"}',
        '{"title": "u", "abstract": "a", "topic_2": "y", "topic_3": "z"}',
        '{"topic_2": "y", "abstract": "b"}',
    ]
    content = "".join(f"{line}\n" for line in lines)
    rows = [["t", ["x"]], ["u\na", ["y"]], ["b", ["y"]]]
    assert read_table("a.jsonl", content, text_column="title,abstract", label_column="topic_1,topic_2") == rows
    rows[1][1] = ["y", "z"]
    assert read_table("a.jsonl", content, text_column="title,abstract", label_column="topic_*") == rows


@pytest.mark.parametrize(
    ("lines", "settings"),
    [
        (['{"labels": ["x"]}', '{"text": "b", "labels": []}'], {}),
        (['{"l1": "a"}', '{"text": "b", "l2": null}'], {"label_column": "l1,l2"}),
    ],
)
def test_labels_before_the_first_text_fix_their_type(tmp_path, load, lines, settings):
    (tmp_path / "a.jsonl").write_text("".join(f"{line}\n" for line in lines))
    data = load(tmp_path / "a.jsonl", validation_fraction=0, **settings)["train"]
    assert data["text"][:] == ["", "b"] and data["labels"][:] == [[0], []]


def test_one_column_for_each_label(read_table):
    content = "id,comment,toxic,insult\n1,x,1,0\n2,y,1,1\n3,z,0,0\n"
    settings = {"text_column": "comment", "label_column": "toxic,insult", "label_format": "multi_hot"}
    assert read_table("a.csv", content, **settings) == [["x", ["toxic"]], ["y", ["toxic", "insult"]], ["z", []]]
    with pytest.raises(ValueError, match="line 2: the column 'id' holds '7'.*label_column='a,b,c'"):
        read_table("b.csv", content.replace("1,x", "7,x"), **{**settings, "label_column": "*"})


def test_columns_that_say_true_or_false_are_one_column_for_each_label(read_table):
    settings = {"text_column": "comment", "label_column": "toxic,insult", "label_format": "multi_hot"}
    for yes, no in (("True", "False"), ("yes", "No"), ("x", ""), ("1.0", "0.0")):
        rows = read_table("a.csv", f"comment,toxic,insult\nx,{yes},{no}\ny,{yes.upper()},{yes}\n", **settings)
        assert rows == [["x", ["toxic"]], ["y", ["toxic", "insult"]]]
        line = f'{{"comment": "x", "toxic": "{yes}", "insult": "{no}"}}\n'
        assert read_table("a.jsonl", line, **settings) == [["x", ["toxic"]]]
    with pytest.raises(
        ValueError, match="line 2: the column 'toxic' holds 'ja', .*hold 0 or 1, true or false, yes or no, or x"
    ):
        read_table("a.csv", "comment,toxic,insult\nx,ja,nein\n", **settings)


@pytest.mark.parametrize(("one", "zero"), [("1", "0"), ("1.0", "0.0"), ("True", "False"), ("yes", "no"), ("1", "")])
def test_zeros_and_ones_are_no_labels(read_table, one, zero):
    content = f"text,t_a,t_b\nx,{one},{zero}\ny,{one},{one}\n"
    with pytest.raises(ValueError, match="the label columns t_a, t_b hold nothing but .*label_format='multi_hot'"):
        read_table("a.csv", content, label_column="t_*")


@pytest.mark.parametrize(("one", "zero"), [("1", "0"), ("true", "false"), ('"yes"', '"no"'), ("1", "null")])
def test_zeros_and_ones_of_json_are_no_labels(read_table, one, zero):
    content = f'{{"text": "x", "t_a": {one}}}\n{{"text": "y", "t_a": {one}, "t_b": {zero}}}\n'
    with pytest.raises(ValueError, match="label_format='multi_hot'"):
        read_table("a.jsonl", content, label_column="t_*")
    rows = read_table("b.jsonl", content, label_column="t_*", label_format="multi_hot")
    assert rows == [["x", ["t_a"]], ["y", ["t_a"]]]


def test_ids_under_several_keys_may_be_0_and_1_among_others(read_table):
    content = '{"text": "x", "l1": 0, "l2": 1}\n{"text": "y", "l1": 1, "l2": 2}\n'
    assert read_table("a.jsonl", content, label_column="l1,l2") == [["x", [0, 1]], ["y", [1, 2]]]


def test_columns_of_one_label_each_may_hold_a_flag_among_others(read_table):
    rows = read_table("a.csv", "text,t1,t2\nx,1,rain\n", label_column="t*1,t2")
    assert rows == [["x", ["1", "rain"]]]


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be", "utf-8-sig"])
@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
def test_exports_of_excel(read_table, encoding, delimiter):
    """AC-57."""
    content = f'text{delimiter}labels\r\n"Öl; ""a"", b\r\nnext line"{delimiter}x\r\n'
    assert read_table("a.csv", content.encode(encoding)) == [['Öl; "a", b\nnext line', ["x"]]]


def test_the_line_that_names_excels_delimiter(read_table):
    assert read_table("a.csv", "sep=;\ntext;labels\na, b;x\n") == [["a, b", ["x"]]]


def test_nothing_is_quoted_in_a_tsv(read_table):
    """AC-55."""
    rows = read_table("a.tsv", 'text\tlabels\n"Bread\tx\nrolls\ty\nsoup"\tz\n')
    assert [row[0] for row in rows] == ['"Bread', "rolls", 'soup"']


def test_rows_of_another_width_are_refused(read_table):
    """AC-63 and AC-17 (d)."""
    with pytest.raises(ValueError, match="a.tsv, line 3 has 4 cells, but line 1 names 2 columns"):
        read_table("a.tsv", "text\tlabels\na\tx\na\tb\tc\tx\n")
    with pytest.raises(ValueError, match="a.csv, line 2 has 1 cells, but line 1 names 2 columns"):
        read_table("a.csv", "text,labels\nshort\n")
    with pytest.raises(ValueError, match="a.csv, the row behind line 2 is no sound csv"):
        read_table("a.csv", 'text,labels\na,x\n"never closed,x\nb,y\n')
    with pytest.raises(ValueError, match="a.csv, the row behind line 1 is no sound csv"):
        read_table("a.csv", "text,labels\na\rb,x\n")
    with pytest.raises(ValueError, match="a.csv, the row behind line 0 is no sound csv"):
        read_table("a.csv", "text,labels\ra,x\r")  # as an old Mac ends lines


def test_json_values(read_table):
    assert read_table("a.jsonl", '{"text": "x", "labels": [5, 3]}\n{"text": null, "labels": null}\n') == [
        ["x", [5, 3]],
        [None, []],
    ]
    assert read_table("b.jsonl", '{"text": "x", "labels": [1, 0, 1]}\n', label_format="multi_hot") == [["x", [0, 2]]]
    assert read_table("c.jsonl", '{"text": "x", "labels": ["007"]}\n') == [["x", ["007"]]]
    assert read_table("d.jsonl", '{"text": "x", "labels": [1, 2]}\n', one_based=True) == [["x", [0, 1]]]


def test_documents_without_labels_do_not_fix_the_type(read_table):
    """AC-53."""
    assert read_table("a.jsonl", '{"text": "x", "labels": []}\n{"text": "y", "labels": ["b"]}\n') == [
        ["x", []],
        ["y", ["b"]],
    ]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('{"text": "x", "labels": [1, "a"]}', "the labels are .* must be a list of strings or a list of integer ids"),
        ('{"text": "x", "labels": [null]}', r"the labels are \[None\]"),
        ('{"text": 3, "labels": ["a"]}', "the text is 3, but texts are strings"),
        ('[{"text": "x"}]', "line 2 is a list, not an object .*jq"),
        ('{"text": "x", "lab', "line 2 cannot be read as JSON .*cut off"),
        ('{"text": "x", "labels": [1]}', "holds the label 1, but labels before it are of the type str"),
    ],
)
def test_json_that_is_refused(read_table, line, message):
    with pytest.raises(ValueError, match=f"a.jsonl, line 2.*{message}|a.jsonl, {message}"):
        read_table("a.jsonl", '{"text": "x", "labels": ["a"]}\n' + line + "\n")


@pytest.mark.parametrize(
    ("row", "settings", "message"),
    [
        ("[1, -1]", {}, r"the label id -1, but label ids are whole numbers from 0 to 2147483647. Padding goes"),
        ("[1, 0]", {"one_based": True}, r"the label id 0, but label ids are whole numbers from 1 .*leave one_based out"),
        ("[99999999999]", {}, "the label id 99999999999, but"),
        (f"[{10**30}]", {}, f"the label id {10**30}, but"),
        ("[0, 1, 1]", {"label_format": "multi_hot"}, r"the multi-hot rows have different widths, \[2, 3\]"),
    ],
)
def test_ids_in_json_that_are_none(read_table, row, settings, message):
    """AC-09."""
    with pytest.raises(ValueError, match=f"a.jsonl, line 2.*{message}"):
        read_table("a.jsonl", f'{{"text": "x", "labels": [1, 1]}}\n{{"text": "y", "labels": {row}}}\n', **settings)


def test_labels_and_ids_under_several_keys_are_refused(read_table):
    lines = '{"text": "x", "l1": "a"}\n{"text": "x", "l1": ["a"], "l2": 3}\n'
    with pytest.raises(ValueError, match="a.jsonl, line 2 holds the label 3, but labels before it are of the type str"):
        read_table("a.jsonl", lines, label_column="l1,l2")


def test_blank_lines_are_no_documents_and_empty_rows_are_counted(tmp_path, load):
    files = {
        "a.csv": "text,labels\na,x\n\n  \nb,y\n,\n ,\n\n",
        "a.tsv": "text\tlabels\na\tx\n\n  \nb\ty\n\t\n \t\n\n",
        "a.jsonl": '{"text": "a", "labels": ["x"]}\n\n  \n{"text": "b", "labels": ["y"]}\n{"text": ""}\n{"text": " ", "labels": []}\n\n',
    }
    for name, content in files.items():
        (tmp_path / name).write_text(content)
        for _ in range(2):  # the second time from the cache
            with pytest.warns(UserWarning, match=f"{name}: documents have neither text nor labels .2 in train.*remove"):
                data = load(tmp_path / name, validation_fraction=0)
        assert data["train"]["text"][:2] == ["a", "b"] and len(data["train"]) == 4
