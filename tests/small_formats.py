"""Small files of every format, and reading them."""

import gzip

import numpy as np
import pyarrow as pa
import scipy.sparse

from hf_xmtc.data.formats.corpus import ReadSettings
from hf_xmtc.data.formats.registry import find_format

# The same three documents as the makers of each format document it: two texts with labels, and one without.
TEXTS = ["first text", "second text", ""]
LABELS = [["b", "a"], ["c"], []]

FILES = {
    "csv": {"train.csv": "text,labels\nfirst text,\"['b','a']\"\nsecond text,c\n,\n"},
    "tsv": {"train.tsv": 'text\tlabels\nfirst text\t["b","a"]\nsecond text\tc\n\t[]\n'},
    "jsonl": {
        "train.jsonl": '{"text": "first text", "labels": ["b", "a"]}\n{"text": "second text", "labels": "c"}\n{"text": "", "labels": []}\n'
    },
    "lines": {"train_texts.txt": "first text\nsecond text\n\n", "train_labels.txt": "b a\nc\n\n"},
    "raw-lines": {"train_raw_texts.txt": "first text\nsecond text\n\n", "train_labels.txt": "b a\nc\n\n"},
    "sgm": {"text_train": "first text\nsecond text\n\n", "label_train": "b a\nc\n\n"},
    "libmultilabel": {"train.txt": "1\tb a\tfirst text\n2\tc\tsecond text\n3\t\t\n"},
    "fasttext": {"train.txt": "__label__b __label__a first text\n__label__c second text\n\n"},
    "annif": {"train.tsv": "first text\t<x:b> <x:a>\nsecond text\t<x:c>\n\t\n"},
    "annif-folder": {
        "1.txt": "first text\n",
        "1.key": "b\na\n",
        "2.txt": "second text",
        "2.tsv": "<c>\tname of c\n",
        "3.txt": "",
    },
    "xmc-raw": {
        "trn.json": '{"uid": "x", "title": "first", "content": "text", "target_ind": [1, 0], "target_rel": [1.0, 1.0]}\n'
        '{"uid": "y", "title": "second", "content": "text", "target_ind": [2]}\n'
        '{"uid": "z", "title": "", "content": "", "target_ind": []}\n',
        "lbl.json": '{"uid": "a", "title": "label a"}\n{"uid": "b", "title": "label b"}\n{"uid": "c", "title": "label c"}\n',
    },
    "pecos": {"X.trn.txt": "first text\nsecond text\n\n", "output-items.txt": "a\nb\nc\n"},
    "xmc-sparse": {"train.txt": "3 6 3\n1,0 0:1.0 2:0.5\n2 1:0.3\n 3:1\n"},
    "rcv1": {
        "lyrl2004_tokens_train.dat": ".I 1\n.W\nfirst\ntext\n\n.I 2\n.W\nsecond text\n\n.I 3\n.W\n\n",
        "rcv1-v2.topics.qrels": "b 1 1\na 1 1\nc 2 1\nd 3 0\n",
        "rcv1.topics.hier.orig": "parent: Root  child: a  child-description: NAME OF A\nparent: a  child: b  child-description: NAME OF B\n"
        "parent: Root child: c child-description: C\n",
    },
}


def write_files(folder, files):
    """Write files given as text or bytes."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    if any(name.startswith("X.trn") for name in files):
        matrix = scipy.sparse.csr_matrix(np.array([[1, 1, 0], [0, 0, 1], [0, 0, 0]], dtype=np.float32))
        scipy.sparse.save_npz(folder / "Y.trn.npz", matrix)
    return folder


def read_rows(path, name=None, split="train", **settings):
    """What a format reads, as a list of rows; labels as strings."""
    kind, files = find_format(path, name)
    corpus = kind.read(files, ReadSettings(**settings))
    documents = corpus.splits[split]
    names = (
        corpus.labels.names.labels
        if corpus.labels and documents.schema.field("labels").type.value_type == pa.int32()
        else None
    )
    place = documents.schema.names.index("labels")
    rows = [list(row) for row in documents.rows()]
    for row in rows:
        row[place] = [names[label] if names else label for label in row[place]]
    return rows


def compressed(content):
    """Text or bytes as gzip."""
    return gzip.compress(content if isinstance(content, bytes) else content.encode())
