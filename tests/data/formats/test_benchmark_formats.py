"""Files of benchmark data sets: XMC repository, PECOS, RCV1-V2, LibMultiLabel, Annif."""

import numpy as np
import pytest
import scipy.sparse

from hf_xmtc.data import label_info_of
from hf_xmtc.data.formats.corpus import ReadSettings
from hf_xmtc.data.formats.registry import find_format
from small_formats import FILES, compressed, read_rows, write_files


def _sparse(tmp_path, content, **settings):
    return read_rows(write_files(tmp_path, {"train.txt": content}), "xmc-sparse", **settings)


def test_sparse_rows_without_labels_or_features(tmp_path):
    """AC-07."""
    content = "4 3 6\n2,0 0:1.0 2:0.5\n 1:0.3\n5,5,1 0:1\n3 \n"
    rows = _sparse(tmp_path, content, with_features=True)
    assert [row[0] for row in rows] == [["2", "0"], [], ["5", "5", "1"], ["3"]]
    assert [(tuple(ids), tuple(values)) for _, ids, values in rows] == [
        ((0, 2), (1.0, 0.5)),
        ((1,), (0.3,)),
        ((0,), (1.0,)),
        ((), ()),
    ]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("5 3 6\n0 0:1\n0 0:1\n", "the first line says 5 documents, but 2 follow"),
        ("0 0:1\n0 0:1\n", "line 1 is '0 0:1', but must name the numbers of documents, features and labels"),
        ("2 3 6\n0 0:1\n0 3:1\n", "line 3 holds the feature 3, but the header names 3 features"),
        (
            "2 3 6\n0 0:1\n6 0:1\n",
            "line 3 holds the label id 6, but the 6 labels have the ids 0 to 5. Do the ids count from 1",
        ),
        ("2 3 6\n0 0:1\n-1 0:1\n", "line 3 holds the label id -1"),
        ("2 3 6\n0 0:1\n0 0;1\n", "line 3: '0;1' are no pairs of index:value"),
        ("1 3 16\n1_1 0:1\n", "line 2: '1_1 0:1' holds '_', but must hold numbers"),
        ("1 0 6\n0 0:1\n", "line 2 holds the feature 0, but the header names 0 features"),
    ],
)
def test_sparse_files_that_contradict_themselves(tmp_path, content, message):
    """AC-08 and AC-09."""
    with pytest.raises(ValueError, match=f"train.txt.*{message}"):
        _sparse(tmp_path, content, with_features=True)


def test_ids_that_count_from_one(tmp_path):
    """AC-09."""
    content = "4 1 4\n" + "".join(f"{label} 0:1\n" for label in (1, 2, 3, 4))
    with pytest.raises(ValueError, match="line 5 holds the label id 4.*one_based=True"):
        _sparse(tmp_path, content)
    assert [row[0] for row in _sparse(tmp_path, content, one_based=True)] == [["0"], ["1"], ["2"], ["3"]]
    with pytest.raises(
        ValueError, match="line 2 holds the label id 0, but the 1 labels have the ids 1 to 1. Do the ids count from 0"
    ):
        _sparse(tmp_path, "1 1 1\n0 0:1\n", one_based=True)


def test_a_matrix_of_labels_alone(tmp_path):
    folder = write_files(tmp_path, {"trn_X_Y.txt": "2 4\n0:1 3:1\n2:1\n"})
    assert [row[0] for row in read_rows(folder)] == [["0", "3"], ["2"]]


def test_pairs_to_leave_out_come_with_the_documents(tmp_path):
    """AC-13."""
    folder = write_files(tmp_path, {**FILES["xmc-raw"], "filter_labels_train.txt": "2 1\n0 2\n0 1\n"})
    assert [row[2] for row in read_rows(folder)] == [[2, 1], [], [1]]
    (tmp_path / "filter_labels_train.txt").rename(tmp_path / "trn_filter_labels.txt")
    assert [row[2] for row in read_rows(folder)] == [[2, 1], [], [1]]
    with pytest.raises(ValueError, match="Several files claim .*: filter_labels_train.txt, trn_filter_labels.txt"):
        read_rows(write_files(tmp_path, {"filter_labels_train.txt": ""}))
    (tmp_path / "trn_filter_labels.txt").unlink()
    assert [row[2] for row in read_rows(folder)] == [[], [], []]
    write_files(tmp_path, {"filter_labels_train.txt": "0 1\n0 3\n"})
    with pytest.raises(ValueError, match="filter_labels_train.txt, line 2 holds the label id 3, but the 3 labels"):
        read_rows(folder)
    write_files(tmp_path, {"filter_labels_train.txt": "3 1\n"})
    with pytest.raises(ValueError, match="filter_labels_train.txt names the document 3, but .*trn.json has 3 documents"):
        read_rows(folder)


@pytest.mark.parametrize("name", ["filter_labels_val.txt", "dev_filter_labels.txt.gz"])
def test_compressed_pairs_of_any_split_are_read(tmp_path, name):  # AC-12, AC-13
    pairs = compressed("0 2\n0 1\n") if name.endswith(".gz") else "0 2\n0 1\n"
    files = {**FILES["xmc-raw"], "dev.json.gz": compressed(FILES["xmc-raw"]["trn.json"])}
    folder = write_files(tmp_path, {**files, name: pairs, "filter_labels_train.txt.gz": compressed("1 0\n")})
    assert [row[2] for row in read_rows(folder, split="validation")] == [[2, 1], [], []]
    assert [row[2] for row in read_rows(folder)] == [[], [0], []]


@pytest.mark.parametrize("name", ["filter_labels_val.txt", "filter_labels.txt", "filter_labels_test.txt.gz"])
def test_pairs_that_are_not_read_are_named(tmp_path, load, name):
    folder = write_files(tmp_path / "data", {**FILES["xmc-raw"], name: "0 2\n", "notes.txt": ""})
    with pytest.warns(UserWarning, match=rf"not read: {name}\. .* in the format xmc-raw, from filter_labels_train.txt"):
        load(folder, validation_fraction=0)


def test_pairs_of_documents_that_cannot_be_are_refused(tmp_path):
    files = {"trn.json": '{"title": "a", "target_ind": [0]}\n', "lbl.json": '{"uid": "x"}\n'}
    for line, settings, message in (
        ("-1 0", {}, "-1, but they count from 0"),
        ("0 1", {"one_based": True}, "0, but they count from 1"),
    ):
        folder = write_files(tmp_path, {**files, "filter_labels_train.txt": f"{line}\n"})
        files["trn.json"] = files["trn.json"].replace("[0]", "[1]")
        with pytest.raises(ValueError, match=f"filter_labels_train.txt, line 1 names the document {message}"):
            read_rows(folder, **settings)


@pytest.mark.parametrize(
    ("files", "rows"),
    [
        ({"train.txt": "__label__é à\n"}, [["à", ["é"]]]),
        ({"train.tsv": "à\t<http://example.org/é>\n"}, [["à", ["http://example.org/é"]]]),
        ({"lyrl2004_tokens_train.dat": ".I 1\n.W\nà\n", "rcv1-v2.topics.qrels": "é 1 1\n"}, [["à", ["é"]]]),
    ],
)
def test_a_named_encoding_is_used_to_recognise_and_to_read(tmp_path, load, files, rows):
    """AC-11."""
    folder = write_files(tmp_path, {name: text.encode("latin-1") for name, text in files.items()})
    data = load(folder, encoding="latin-1", validation_fraction=0)
    names = label_info_of(data).names
    assert [[row["text"], [names[i] for i in row["labels"]]] for row in data["train"]] == rows


def test_titles_that_repeat_are_no_labels(tmp_path):
    labels = '{"title": "same"}\n{"title": "same"}\n{"title": "other"}\n'
    folder = write_files(tmp_path, {**FILES["xmc-raw"], "lbl.json": labels})
    kind, files = find_format(folder, None)
    names = kind.read(files, ReadSettings()).labels.names
    assert (names.labels, names.name_of(1)) == (["0", "1", "2"], "same")


def _older_release(label_texts):
    """As AmazonCat-13K, EURLex-4K and Wiki10-31K are unpacked: no lbl.json.gz, and no titles in some."""
    document = '{"uid": "B0027DQHA0", "content": "Three discs.", "target_ind": [2, 0], "target_rel": [1.0, 1.0]}\n'
    return {"trn.json.gz": compressed(document), "tst.json.gz": compressed(document), "Yf.txt": label_texts}


def test_label_texts_of_older_releases(tmp_path, load):
    folder = write_files(tmp_path / "corpus", _older_release("movies & tv\nbooks\nbritish tv\n"))
    assert find_format(folder, None)[0].name == "xmc-raw"
    for split in ("train", "test"):
        assert read_rows(folder, split=split) == [["Three discs.", ["british tv", "movies & tv"]]]
    data = load(folder, label_space="file", validation_fraction=0)
    assert label_info_of(data).names.labels == ["movies & tv", "books", "british tv"]
    write_files(folder, {"Yf.txt": "movies & tv\nbooks\ndvds\n"})
    assert label_info_of(load(folder, label_space="file", validation_fraction=0)).names.labels[2] == "dvds"
    write_files(folder, {"Yf.txt": "books\nbooks\ndvds\n"})
    labels = label_info_of(load(folder, label_space="file", validation_fraction=0)).names
    assert (labels.labels, labels.name_of(1)) == (["0", "1", "2"], "books")
    write_files(folder, {"Yf.txt": "movies & tv\nbooks\n"})
    with pytest.raises(ValueError, match="trn.json.gz, line 1 holds the label id 2, but the 2 labels have the ids 0 to 1"):
        read_rows(folder)


def test_label_texts_in_another_encoding(tmp_path):
    folder = write_files(tmp_path, _older_release("café\nbooks\ndvds\n".encode("latin-1")))
    with pytest.raises(ValueError, match="Yf.txt, line 1 is not utf-8.*--encoding latin-1"):
        read_rows(folder)
    assert read_rows(folder, encoding="latin-1") == [["Three discs.", ["dvds", "café"]]]


def test_features_of_labels_are_no_label_texts(tmp_path):
    """Yf.txt of the data sets with label features is a matrix; that of ZestXML names the columns of one."""
    rows = "0:0.5 7:1.2\n\n8:0.1\n"
    matrix = f"3 9\n{rows}"
    for content in (matrix, rows):
        folder = write_files(tmp_path / "raw", _older_release(content))
        with pytest.raises(ValueError, match="Yf.txt begins with '.*0:0.5 7:1.2.*: a matrix of the features.*lbl.json.gz"):
            read_rows(folder)
    write_files(folder, {"lbl.json": FILES["xmc-raw"]["lbl.json"]})
    assert read_rows(folder) == [["Three discs.", ["c", "a"]]]
    for name, content in (("matrix", matrix), ("vocabulary", "__label__0__tv\n0_tv\n")):
        folder = write_files(tmp_path / name, {"trn_X_Y.txt": "1 3\n0:1 2:1\n", "Yf.txt": content})
        assert [row[0] for row in read_rows(folder)] == [["0", "2"]]


@pytest.mark.parametrize("kind", ["csc", "pickle", "cut", "wide"])
def test_matrices_that_are_refused(tmp_path, kind):
    folder = write_files(tmp_path, FILES["pecos"])
    path = folder / "Y.trn.npz"
    matrix = scipy.sparse.random(3, 4 if kind == "wide" else 3, 0.5)
    if kind == "pickle":
        np.savez(path, **{name: np.array([{}], dtype=object) for name in ("format", "shape", "indptr", "indices", "data")})
    elif kind == "cut":
        path.write_bytes(path.read_bytes()[:200])
    else:
        scipy.sparse.save_npz(path, matrix.tocsr() if kind == "wide" else matrix.tocsc())
    message = "has 4 columns, but output-items.txt has 3 lines" if kind == "wide" else "is no CSR matrix of scipy"
    with pytest.raises(ValueError, match=f"Y.trn.npz {message}"):
        read_rows(folder)


def test_topics_of_rcv1(tmp_path):
    folder = write_files(tmp_path, FILES["rcv1"])
    with pytest.raises(ValueError, match="tokens_train.dat, line 10: rcv1-v2.topics.qrels has no topic of the document 3"):
        read_rows(folder)
    kind, files = find_format(folder, None)
    names = kind.read(files, ReadSettings()).labels.names
    assert (names.labels, names.name_of(1), names.parents_of(1)) == (["a", "b", "c"], "NAME OF B", ["a"])
    write_files(tmp_path, {"lyrl2004_tokens_train.dat": ".I 1\n.W\nx\n\n.I 2\n"})
    with pytest.raises(ValueError, match="ends in line 5 within the document 2. Was the download cut off"):
        read_rows(folder)


def test_parts_of_rcv1_are_read_once_and_in_order(tmp_path):
    first, second = ".I 1\n.W\nx\n\n", ".I 2\n.W\ny\n\n"
    names = [f"lyrl2004_tokens_test_pt{i}.dat" for i in (0, 1)]
    files = {names[1]: second, names[0]: first, "rcv1-v2.topics.qrels": FILES["rcv1"]["rcv1-v2.topics.qrels"]}
    folder = write_files(tmp_path, files)
    assert read_rows(folder, split="test") == [["x", ["b", "a"]], ["y", ["c"]]]
    write_files(folder, {f"{names[0]}.gz": compressed(first)})
    with pytest.raises(ValueError, match=f"Several files claim to be the test split: {names[0]}, {names[0]}.gz"):
        read_rows(folder, split="test")


def test_libmultilabel_without_ids_and_with_other_widths(tmp_path):
    folder = write_files(tmp_path, {"train.txt": "a b\tsome words\n\tno label\n"})
    assert read_rows(folder) == [["some words", ["a", "b"]], ["no label", []]]
    write_files(tmp_path, {"train.txt": "a\tx\na\tx\ty\n"})
    with pytest.raises(ValueError, match="train.txt, line 2 has 3 fields, but line 1 has 2. Remove tabs"):
        read_rows(folder)
    write_files(tmp_path, {"train.txt": "text\tlabels\na\tb\n"})
    assert find_format(folder, None) is None


def test_any_blank_ends_a_word_of_fasttext(tmp_path):
    content = "__label__a\t__label__b\tfirst text\n__label__c\vsecond\ttext\t__label__d\n__label__e\n"
    rows = read_rows(write_files(tmp_path, {"train.txt": content}))
    assert rows == [["first text", ["a", "b"]], ["second text", ["c", "d"]], ["", ["e"]]]


def test_fasttext_files_named_after_a_data_set(tmp_path):
    folder = write_files(tmp_path, {"cooking.train": "__label__a x\n", "cooking.valid": "__label__b y\n"})
    assert read_rows(folder, split="validation") == [["y", ["b"]]]


def test_folders_of_annif_have_the_names_of_splits(tmp_path):
    files = {f"{split}/1.{ending}": split for split in ("trn", "dev", "test") for ending in ("txt", "key")}
    folder = write_files(tmp_path / "corpus", files)
    assert read_rows(folder, split="validation") == [["dev", ["dev"]]]
    assert read_rows(folder) == [["trn", ["trn"]]] and read_rows(folder, split="test") == [["test", ["test"]]]
    with pytest.raises(ValueError, match="Several files claim to be the validation split: val, dev"):
        read_rows(write_files(folder, {"val/1.txt": "", "val/1.key": ""}))


def test_files_about_a_folder_of_annif_are_no_documents(tmp_path, load):
    files = {"1.txt": "one", "1.key": "a", "README.txt": "about", "LICENSE.txt": "free", "2.tsv": "<b>", "vocab.key": "c"}
    folder = write_files(tmp_path / "corpus", files)
    assert read_rows(folder) == [["one", ["a"]]]
    with pytest.warns(UserWarning, match=r"corpus: not read: 2\.tsv, vocab\.key\."):
        load(folder, validation_fraction=0)
    splits = {f"train/{name}": text for name, text in files.items()}
    with pytest.warns(UserWarning, match=r"splits: not read: train/2\.tsv, train/vocab\.key\."):
        load(write_files(tmp_path / "splits", splits), validation_fraction=0)
    assert read_rows(write_files(folder, {"readme.txt": "me too", "readme.key": "d"}))[1:] == [["me too", ["d"]]]


def test_annif_lines_that_are_refused(tmp_path):
    folder = write_files(tmp_path, {"train.tsv": "a\t<x:1>\nb\n"})
    with pytest.raises(ValueError, match="train.tsv, line 2 has no tab"):
        read_rows(folder)
    write_files(tmp_path, {"train.tsv": "a\t<x:1>\nb\tc\t<x:1>\n"})
    with pytest.raises(ValueError, match="train.tsv, line 2 has several tabs"):
        read_rows(folder)
    write_files(tmp_path, {"train.tsv": "a\t<x:1>\nb\twords\n"})
    with pytest.raises(ValueError, match="train.tsv, line 2 has 'words' behind its last tab"):
        read_rows(folder)


def test_a_damaged_directory_of_a_matrix_is_refused(tmp_path):
    folder = write_files(tmp_path, FILES["pecos"])
    path = folder / "Y.trn.npz"
    content = bytearray(path.read_bytes())
    end = content.rindex(b"PK\x05\x06")
    content[end + 16 : end + 20] = (2**31).to_bytes(4, "little")  # where the directory begins
    path.write_bytes(content)
    with pytest.raises(ValueError, match="Y.trn.npz is no CSR matrix of scipy"):
        read_rows(folder)
