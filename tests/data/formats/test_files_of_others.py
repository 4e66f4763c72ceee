"""Each format from files of another program, or written by hand as the makers document them, not by our own writers.

docs/data.md names the documents.
"""

import csv
import gzip
import json

import numpy as np
import pandas as pd
import scipy.sparse
from sklearn.datasets import dump_svmlight_file

from hf_xmtc.data.formats.corpus import ReadSettings
from hf_xmtc.data.formats.registry import find_format
from small_formats import read_rows, write_files

TABLE = pd.DataFrame({"body": ['one, "two"\nthree', "Öl", ""], "topics": ["a|b c", "a", ""], "note": [1.5, None, 2]})


def test_tables_of_pandas(tmp_path):
    TABLE.to_csv(tmp_path / "train.csv", index=False)
    settings = {"text_column": "body", "label_column": "topics", "label_separator": "|"}
    rows = [['one, "two"\nthree', ["a", "b c"]], ["Öl", ["a"]], ["", []]]
    assert read_rows(tmp_path / "train.csv", **settings) == rows
    lines = TABLE.assign(topics=TABLE["topics"].str.split("|"))[:2]
    lines.to_json(tmp_path / "train.jsonl", orient="records", lines=True)  # \u00d6l
    assert read_rows(tmp_path / "train.jsonl", text_column="body", label_column="topics") == rows[:2]
    TABLE[1:].to_csv(tmp_path / "train.tsv", sep="\t", index=False, quoting=csv.QUOTE_NONE)
    assert read_rows(tmp_path / "train.tsv", **settings) == rows[1:]


def test_files_of_attentionxml_and_sgm(tmp_path):
    # README of yourh/AttentionXML; Amazon's titles end in /SEP/.
    texts = "the old book /SEP/ a history\nnew cover\n"
    folder = write_files(tmp_path / "lines", {"train_texts.txt": texts, "train_labels.txt": "14 2093\n7\n"})
    assert read_rows(folder) == [["the old book /SEP/ a history", ["14", "2093"]], ["new cover", ["7"]]]
    raw = {"train_raw_texts.txt": "The old book\nNew cover!\n", "train_labels.txt": "14 2093\n7\n"}
    assert [row[0] for row in read_rows(write_files(tmp_path / "raw", raw))] == ["The old book", "New cover!"]
    # preprocess.py of lancopku/SGM names text_train, text_val, text_test, and label_ likewise, and splits both at blanks.
    aapd = {"text_train": "we bound the rate of codes\n", "label_train": "cs.it math.it\n"}
    folder = write_files(tmp_path / "sgm", {**aapd, "text_val": "graphs\n", "label_val": "math.co cs.dm\n"})
    assert read_rows(folder) == [["we bound the rate of codes", ["cs.it", "math.it"]]]
    assert read_rows(folder, split="validation") == [["graphs", ["math.co", "cs.dm"]]]


def test_a_matrix_that_scipy_stores_for_pecos(tmp_path):
    # EXAMPLE.md of pecos.xmc.xlinear in amzn/pecos; its data sets name the labels in output-items.txt.
    matrix = scipy.sparse.lil_matrix((2, 3), dtype=np.float32)
    matrix[0, 2] = matrix[0, 0] = matrix[1, 1] = 1
    scipy.sparse.save_npz(tmp_path / "Y.trn.npz", matrix.tocsr())
    (tmp_path / "X.trn.txt").write_text("first text\nsecond\n")
    (tmp_path / "output-items.txt").write_text("abattoir\nabrasive\nabsenteeism\n")
    assert read_rows(tmp_path) == [["first text", ["abattoir", "absenteeism"]], ["second", ["abrasive"]]]


def test_rows_that_scikit_learn_stores(tmp_path):
    # README of the Extreme Classification Repository: a line of counts, then lines as scikit-learn writes several labels.
    features = scipy.sparse.csr_matrix([[0.5, 0, 1], [0, 0, 2], [0, 0, 0]])
    dump_svmlight_file(
        features,
        scipy.sparse.csr_matrix([[1, 0, 1, 0], [0] * 4, [0, 1, 0, 0]]),
        str(tmp_path / "rows"),
        multilabel=True,
        zero_based=True,
    )
    (tmp_path / "train.txt").write_text("3 3 4\n" + (tmp_path / "rows").read_text())
    assert read_rows(tmp_path / "train.txt", "xmc-sparse", with_features=True) == [
        [["0", "2"], (0, 2), (0.5, 1.0)],
        [[], (2,), (2.0,)],
        [["1"], (), ()],
    ]


def test_raw_texts_of_the_repository(tmp_path):
    # The keys that code for these files reads; uid and target_rel are there too.
    entry = {"uid": "0001", "title": "Old Book", "content": "A history.", "target_ind": [1, 0], "target_rel": [1.0, 1.0]}
    labels = [
        {"uid": "0007", "title": "Older Book", "content": ""},
        {"uid": "0001", "title": "Old Book", "content": "A history."},
    ]
    files = {
        name: gzip.compress("".join(f"{json.dumps(row)}\n" for row in rows).encode())
        for name, rows in (("trn.json.gz", [entry]), ("lbl.json.gz", labels))
    }
    folder = write_files(tmp_path, {**files, "filter_labels_train.txt": "0 1\n"})
    assert read_rows(folder) == [["Old Book\nA history.", ["0001", "0007"], [1]]]


def test_files_of_libmultilabel_and_fasttext(tmp_path):
    # The page on data formats of LibMultiLabel: id, labels and text; its rcv1 is RCV1-V2's tokens.
    folder = write_files(tmp_path / "libmultilabel", {"train.txt": "2286\tE11 ECAT M11 M12 MCAT\trecov recov excit\n"})
    assert read_rows(folder) == [["recov recov excit", ["E11", "ECAT", "M11", "M12", "MCAT"]]]
    # The tutorial on supervised learning of facebookresearch/fastText.
    line = "__label__sauce __label__food-safety How long does tomato sauce keep?\n"
    folder = write_files(tmp_path / "fasttext", {"cooking.train": line, "cooking.valid": "__label__bread Why salt?\n"})
    assert read_rows(folder) == [["How long does tomato sauce keep?", ["sauce", "food-safety"]]]


def test_corpora_of_annif(tmp_path):
    # tests/corpora of NatLibFi/Annif: short texts with URIs, and full texts with a file of subjects each.
    yso = "http://www.yso.fi/onto/yso/"
    folder = write_files(tmp_path / "short", {"train.tsv": f"Linnan salakäytävä\t<{yso}p7346> <{yso}p6289>\n"})
    assert read_rows(folder) == [["Linnan salakäytävä", [f"{yso}p7346", f"{yso}p6289"]]]
    # Its CSV has the columns text and subject_uris.
    folder = write_files(tmp_path / "csv", {"train.csv": f"text,subject_uris\nLinna,<{yso}p7346> <{yso}p6289>\nTie,\n"})
    assert read_rows(folder, label_column="subject_uris") == [["Linna", [f"{yso}p7346", f"{yso}p6289"]], ["Tie", []]]
    files = {"1.txt": "Pyramidit\n", "1.tsv": f"<{yso}p18569>\tpyramidit\n<{yso}p3973>\tantiikki\n"}
    folder = write_files(tmp_path / "full", {**files, "2.txt": "Haudat", "2.key": "muistomerkit\nihmeet"})
    assert read_rows(folder) == [["Pyramidit", [f"{yso}p18569", f"{yso}p3973"]], ["Haudat", ["muistomerkit", "ihmeet"]]]


def test_files_of_rcv1(tmp_path):
    # Appendices 2, 8 and 12 of Lewis et al. (2004): topics in columns, with a root, and tokens in several lines.
    tree = (
        "parent: None                child: Root                child-description: Root\n"
        "parent: Root                child: ECAT                child-description: ECONOMICS\n"
        "parent: ECAT                child: E11                 child-description: ECONOMIC PERFORMANCE\n"
    )
    files = {"lyrl2004_tokens_train.dat": ".I 2286\n.W\nrecov recov recov\nexcit bring mexic\n\n.I 2287\n.W\nuruguay\n\n"}
    topics = {"rcv1-v2.topics.qrels": "E11 2286 1\nECAT 2286 1\nECAT 2287 1\n", "rcv1.topics.hier.orig": tree}
    folder = write_files(tmp_path, {**files, **topics})
    assert read_rows(folder) == [["recov recov recov excit bring mexic", ["E11", "ECAT"]], ["uruguay", ["ECAT"]]]
    kind, found = find_format(folder, None)
    names = kind.read(found, ReadSettings()).labels.names
    assert (names.labels, names.name_of(1), names.parents_of(1)) == (["ECAT", "E11"], "ECONOMIC PERFORMANCE", ["ECAT"])
