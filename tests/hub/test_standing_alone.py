"""An exported folder opens where this package is not installed: one process without it opens every folder of these tests."""

import ast
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from transformers import AutoTokenizer
from transformers.dynamic_module_utils import get_relative_import_files

from hf_xmtc import BertXMLForXMTC
from models.families import LONG, SHORT, VARIANTS, make_batch, overwrite_parameters

TEXT = "play music and edit a plain file"

# One variant of every model class, and the file that is other in a second folder of its name. Half of the second folders are
# opened before the first ones.
CHANGED = {
    "bertxml-pre-norm-plain": "modeling_bertxml.py",
    "xmlcnn-cornet": "cornet.py",
    "xmlrnn-plain": "word_encoders.py",
    "attentionxml-plain": "attentionxml_head.py",
    "laco-on-bert-plain": "laco_candidates.py",
    "seqtag-on-bert-plain": "linear_layers.py",
    "meshprobenet-plain": "modeling_xmtc.py",
    "parabel-plain": "linear_tree_head.py",
    "treaderxml-plain": "reading_layers.py",
}
PATH_JOBS = ["path", "dotted and blank", "not ascii", ".", "./"]
SAVED_JOBS = ["after training", "saved by the process", "saved twice by the process"]


@pytest.fixture(scope="module")
def outcome(tmp_path_factory: pytest.TempPathFactory, tiny_model_folder: Path) -> dict:
    """What the process without the package reported, what was expected, and the folders it opened."""
    root = tmp_path_factory.mktemp("alone")
    jobs, expected = [], {}

    # Every family, every parameter overwritten, as it is in memory.
    for name, (family, num_blocks) in VARIANTS.items():
        model = family.build(cornet_num_blocks=num_blocks, label_names=list("edcba"))
        overwrite_parameters(model)
        model.save_pretrained(root / name)
        input_ids = make_batch(model, [SHORT, LONG])["input_ids"]
        with torch.no_grad():
            expected[name] = model(input_ids).logits
        folder = str(root / name)
        jobs.append({"name": name, "folder": folder, "open_as": folder, "input_ids": input_ids.tolist()})

    # Folders with the names of others, equal but for one file of code.
    for number, (name, file) in enumerate(CHANGED.items()):
        changed = root / "changed" / name
        shutil.copytree(root / name, changed)
        with (changed / file).open("a", encoding="utf-8") as code:
            code.write("# changed\n")
        place = len(jobs) if number % 2 else 0
        jobs.insert(place, {"name": f"changed {name}", "folder": str(changed), "open_as": str(changed)})

    # One model with its tokenizer under awkward names, and opened from inside.
    tokenizer = AutoTokenizer.from_pretrained(tiny_model_folder)
    tokens = tokenizer(TEXT, return_tensors="pt")
    model = BertXMLForXMTC.from_pretrained(tiny_model_folder)
    with torch.no_grad():
        logits = model(**tokens).logits
    dotted, foreign = root / "model-v1.5 x", root / "modèle-模型"
    for copy in (dotted, foreign):
        shutil.copytree(tiny_model_folder, copy)
    plain = str(tiny_model_folder)
    second, third = root / "second", root / "third"
    places = [("path", plain, plain, {"save_to": str(second)}), ("dotted and blank", str(dotted), str(dotted), {})]
    places += [("not ascii", str(foreign), str(foreign), {}), (".", str(dotted), ".", {"cwd": str(dotted)})]
    places += [("./", str(foreign), "./", {"cwd": str(foreign)})]
    places += [("saved by the process", str(second), str(second), {"save_to": str(third)})]
    places += [("saved twice by the process", str(third), str(third), {})]
    for name, folder, open_as, more in places:
        jobs.append({"name": name, "folder": folder, "open_as": open_as, "text": TEXT, **more})
        expected[name] = logits

    # Loaded, trained for a step and saved.
    model.train()
    model(**tokens, labels=torch.tensor([[0, 2]])).loss.backward()
    torch.optim.SGD(model.parameters(), lr=0.5).step()
    trained = root / "trained"
    model.save_pretrained(trained)
    tokenizer.save_pretrained(trained)
    with torch.no_grad():
        expected["after training"] = model.eval()(**tokens).logits
    jobs.append({"name": "after training", "folder": str(trained), "open_as": str(trained), "text": TEXT})

    environment = {key: value for key, value in os.environ.items() if not key.startswith("HF_") and key != "PYTHONPATH"}
    environment |= {
        "HF_HOME": str(root / "cache"),
        "HF_HUB_OFFLINE": "1",
        "OMP_NUM_THREADS": "1",
        "PYTHONIOENCODING": "utf-8",
    }
    script, report = Path(__file__).with_name("open_without_package.py"), root / "report.json"
    process = subprocess.run(
        [sys.executable, script, report],
        input=json.dumps(jobs),
        env=environment,
        capture_output=True,
        text=True,
        encoding="utf-8",
    )
    assert process.returncode == 0, process.stderr[-4000:]
    return {
        **json.loads(report.read_text(encoding="utf-8")),
        "expected": expected,
        "folders": {job["name"]: Path(job["folder"]) for job in jobs},
    }


def test_the_process_really_had_nothing_else(outcome):
    assert all(outcome["hidden"].values()), outcome["hidden"]


@pytest.mark.parametrize("name", VARIANTS)
def test_every_family_opens_with_every_tensor_and_the_same_logits(outcome, name):  # AC-01
    result = outcome["results"][name]
    assert result["class"].startswith("transformers_modules.")
    assert result["report"] == {} and result["all_tensors"] and result["differing"] == [] == result["asked"]
    assert not result["training"] and result["num_labels"] == 5 and result["labels"] == list("edcba")
    assert not [message for message in result["warnings"] if "newly initialized" in message or "LOAD REPORT" in message]
    # Equal but for the last bits: sums run in another order where a tensor lies elsewhere in memory.
    torch.testing.assert_close(torch.tensor(result["logits"]), outcome["expected"][name], rtol=2e-6, atol=2e-6)


@pytest.mark.parametrize("name", [*CHANGED, *(f"changed {name}" for name in CHANGED)])
def test_each_of_two_folders_of_one_name_runs_its_own_code(outcome, name):  # AC-61
    assert outcome["results"][name]["code_of_others"] == []


@pytest.mark.parametrize("name", CHANGED)
def test_the_hash_that_tells_folders_apart_covers_all_code(outcome, name):  # AC-61
    folder = outcome["folders"][name]
    config = json.loads((folder / "config.json").read_text())["auto_map"]["AutoConfig"].split(".")[0]
    read = {Path(file).name for file in get_relative_import_files(folder / f"{config}.py")}
    assert read == {path.name for path in folder.glob("*.py")}


@pytest.mark.parametrize("name", [*PATH_JOBS, *SAVED_JOBS])
def test_the_folder_opens_from_anywhere_and_predicts_the_same(outcome, name):  # AC-02
    result = outcome["results"][name]
    assert result["report"] == {} and result["differing"] == []
    torch.testing.assert_close(torch.tensor(result["logits"]), outcome["expected"][name], rtol=2e-6, atol=2e-6)
    assert result["pipeline"] == "XMTCPipeline"
    scores = outcome["expected"][name].sigmoid()[0].tolist()
    by_label = {entry["label"]: entry["score"] for entry in result["answer"]}
    assert by_label == pytest.approx(dict(zip(result["labels"], scores, strict=True)), abs=1e-5)


@pytest.mark.parametrize("name", [*list(VARIANTS)[:2], *PATH_JOBS, *SAVED_JOBS])
def test_the_folder_holds_everything_and_points_only_to_itself(outcome, name):  # AC-02
    folder = outcome["folders"][name]
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    assert set(config["auto_map"]) == {"AutoConfig", "AutoModel", "AutoModelForSequenceClassification"}
    targets = [*config["auto_map"].values(), config["custom_pipelines"]["text-classification"]["impl"]]
    assert all("--" not in target and (folder / f"{target.split('.')[0]}.py").is_file() for target in targets)
    expected = {"config.json", "model.safetensors", "labels.json"}
    expected |= set() if name in VARIANTS else {"tokenizer.json", "tokenizer_config.json"}
    assert expected <= {path.name for path in folder.iterdir()}
    assert str(folder.parent) not in (folder / "config.json").read_text(encoding="utf-8")


def test_saving_again_writes_the_same_code_and_labels(outcome):  # AC-02
    first, second, third = (outcome["folders"][name] for name in ("path", *SAVED_JOBS[1:]))
    files = {path.name for path in first.iterdir() if path.suffix == ".py"} | {"labels.json"}
    for name in files:
        content = (first / name).read_bytes()
        assert (second / name).read_bytes() == content and (third / name).read_bytes() == content, name


def test_exported_code_imports_only_what_transformers_needs_the_standard_library_and_siblings(outcome):
    allowed = {"torch", "transformers", "numpy", *sys.stdlib_module_names}
    for name in VARIANTS:
        folder = outcome["folders"][name]
        code = {path.stem: path.read_text(encoding="utf-8") for path in folder.glob("*.py")}
        for stem, text in code.items():
            for node in ast.walk(ast.parse(text)):
                if isinstance(node, ast.Import):
                    assert {alias.name.partition(".")[0] for alias in node.names} <= allowed, stem
                elif isinstance(node, ast.ImportFrom) and node.level:
                    assert node.level == 1 and node.module in code, stem
                elif isinstance(node, ast.ImportFrom):
                    assert node.module.partition(".")[0] in allowed, stem
