"""A converted data set goes to the Hub with the card of `hf-xmtc describe`, as docs/data.md says."""

import shutil

from hf_xmtc import cli

# What `hf upload me/corpus mydata --repo-type dataset` does, and opening it again.
UPLOAD_AND_LOAD = """
import sys

from huggingface_hub import HfApi

from hf_xmtc import label_info_of, load_xmtc_dataset

api = HfApi()
api.create_repo("me/corpus", repo_type="dataset", exist_ok=True)
api.upload_folder(repo_id="me/corpus", folder_path=sys.argv[1], repo_type="dataset")
data = load_xmtc_dataset("me/corpus", validation_fraction=0)
info = label_info_of(data)
print({split: len(rows) for split, rows in data.items()}, info.names.labels, info.language, info.license)
print([info.label_of(label) for label in data["train"]["labels"][0]])
"""


def test_data_labels_and_card_are_pushed_and_loaded(hub, run_client, tmp_path):
    rows = "".join(f'{{"text": "text {i}", "labels": ["b", "a"]}}\n' for i in range(30))
    (tmp_path / "corpus").mkdir()
    (tmp_path / "corpus" / "train.jsonl").write_text(rows)
    (tmp_path / "corpus" / "README.md").write_text("---\nlicense: cc0-1.0\nlanguage: [en]\n---\n")
    folder, card = tmp_path / "mydata", tmp_path / "mydata-card"
    cli.main(["convert", "--dataset", str(tmp_path / "corpus"), "--output_dir", str(folder)])
    assert cli.main(["describe", "--dataset", str(folder), "--test_fraction", "0.2", "--output_dir", str(card)]) == 0
    shutil.copytree(card, folder, dirs_exist_ok=True)
    said = run_client(UPLOAD_AND_LOAD, folder).stdout
    assert "{'train': 30} ['a', 'b'] en cc0-1.0" in said and "['a', 'b']" in said
    files = hub.repos["datasets/me/corpus"].files()
    assert {"README.md", "label_frequency.png", "labels.parquet", "train.parquet"} < set(files)
    assert "| documents |" in files["README.md"].decode()
