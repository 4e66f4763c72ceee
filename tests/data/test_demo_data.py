import shutil
import warnings

import datasets
import pyarrow.parquet as pq

from hf_xmtc.data import label_info_of
from hf_xmtc.data.demo_labels import derive_labels, write_demo_labels
from hf_xmtc.data.sources import DEMO_FOLDER


def test_names_and_parents_come_from_the_tag_text():
    entries = derive_labels(["role::program", "game::board:chess", "game::board", "devel::lang:perl"])
    assert entries == [
        {"label": "devel::lang:perl", "name": "devel: lang: perl", "parents": ["devel"]},
        {"label": "game::board", "name": "game: board", "parents": ["game"]},
        {"label": "game::board:chess", "name": "game: board: chess", "parents": ["game::board"]},
        {"label": "role::program", "name": "role: program", "parents": ["role"]},
    ]


def test_the_shipped_label_file_can_be_made_again(tmp_path):
    for split in ("train", "validation", "test"):
        shutil.copy(DEMO_FOLDER / f"{split}.parquet", tmp_path)
    write_demo_labels(tmp_path)
    shipped = pq.read_table(DEMO_FOLDER / "labels.parquet")
    assert pq.read_table(tmp_path / "labels.parquet").equals(shipped)
    assert shipped.num_rows == 587


def test_the_demo_data_loads_by_name(load):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        dataset = load("demo")
    info = label_info_of(dataset)
    assert dataset.num_rows == {"train": 4_563, "validation": 579, "test": 858}
    assert (info.source, info.num_labels, len(info.evaluation_only)) == ("demo", 572, 15)
    assert info.license == "free-by-dfsg"
    program = info.names.id_of("role::program")
    assert (info.names.name_of(program), info.names.parents_of(program)) == ("role: program", ["role"])


def test_the_demo_folder_is_a_data_set_for_the_hub(tmp_path):
    dataset = datasets.load_dataset(str(DEMO_FOLDER), cache_dir=str(tmp_path))
    assert dataset.num_rows == {"train": 4_563, "validation": 579, "test": 858}
    labels = datasets.load_dataset(str(DEMO_FOLDER), "labels", cache_dir=str(tmp_path))
    assert labels["train"].column_names == ["label", "name", "parents"]
