"""`hf-xmtc train --model` with a model on the Hub."""

import json

from safetensors.torch import load_file, save_file

from hf_xmtc.hub.verify import check_model_folder
from small_corpus import write_split

GO_ON = """
import sys
from hf_xmtc.commands import export_check
export_check.check_reopens = lambda *args, **settings: 0.0
from hf_xmtc.commands.train import main
main(sys.argv[1:])
"""


def test_training_goes_on_from_a_revision_on_the_hub_without_its_code(hub, run_client, push, model_folder, tmp_path):
    (model_folder / "modeling_bertxml.py").write_text("raise SystemExit('this code must not run')\n")
    push(model_folder, "me/tagger")
    first, old = hub.repos["me/tagger"].resolve("main"), load_file(model_folder / "model.safetensors")
    assert b"must not run" in hub.repos["me/tagger"].files()["modeling_bertxml.py"]
    save_file(
        {name: value + 1 for name, value in old.items()}, model_folder / "model.safetensors", metadata={"format": "pt"}
    )
    push(model_folder, "me/tagger")
    for split in ("train", "validation"):
        write_split(
            tmp_path / "data", split, [("edit a text file", ["interface::text", "zoo"]), ("play music", ["role::program"])]
        )
    options = ["--max_steps", "1", "--learning_rate", "0", "--report_to", "none", "--disable_tqdm", "True"]
    run_client(
        GO_ON,
        "--model",
        "me/tagger",
        "--model_revision",
        first,
        "--dataset",
        tmp_path / "data",
        "--output_dir",
        tmp_path / "run",
        *options,
    )
    new = load_file(tmp_path / "run" / "model.safetensors")
    assert (new["label_head.output.weight"][0] == old["label_head.output.weight"][0]).all()
    assert (new["label_head.output.weight"][1] == old["label_head.output.weight"][2]).all()
    recipe = json.loads((tmp_path / "run" / "recipe.json").read_text())
    assert (recipe["model"], recipe["model_revision"], recipe["model_family"]) == ("me/tagger", first, "bertxml")
    assert "base_model: me/tagger" in (tmp_path / "run" / "README.md").read_text()
    assert "me/tagger" not in (tmp_path / "run" / "config.json").read_text()
    check_model_folder(tmp_path / "run").raise_for_problems()
