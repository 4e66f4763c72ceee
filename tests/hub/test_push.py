"""Publishing over real HTTP, and reopening in fresh processes with caches of their own and without the package."""

import json
import shutil
from pathlib import Path

import pytest
import torch
from huggingface_hub import ModelCard
from huggingface_hub.errors import HfHubHTTPError
from safetensors.torch import load_file, save_file
from transformers import AutoTokenizer

from hf_xmtc import BertXMLForXMTC, LabelNames, LACOConfig, LACOForXMTC, XMTCPipeline, train_word_tokenizer
from hf_xmtc.commands.push import main as push_main
from hf_xmtc.hub import card_from_folder, push_folder
from hf_xmtc.hub.push import TransportError
from hf_xmtc.inference.model_opening import open_model
from hf_xmtc.retrieval import CandidateGenerator, ModelCandidates
from small_ensemble import save_small_cnn

PUSH_SCRIPT = Path(__file__).resolve().parents[2] / "scripts" / "push_to_hub.py"

OPEN_AND_SCORE = """
import sys
sys.modules["hf_xmtc"] = None  # only the code beside the weights may be used
import torch
from transformers import AutoModelForSequenceClassification, AutoTokenizer
for revision in sys.argv[1:]:
    tokenizer = AutoTokenizer.from_pretrained("me/tagger", revision=revision, trust_remote_code=True)
    model = AutoModelForSequenceClassification.from_pretrained("me/tagger", revision=revision, trust_remote_code=True)
    with torch.no_grad():
        print(model(**tokenizer("edit a text file", return_tensors="pt")).logits[0].tolist())
"""

PUSH_MODEL_AND_TOKENIZER = """
import sys
from hf_xmtc import BertXMLForXMTC
from transformers import AutoTokenizer
BertXMLForXMTC.from_pretrained(sys.argv[1]).push_to_hub("me/tagger")
AutoTokenizer.from_pretrained(sys.argv[1]).push_to_hub("me/tagger")
"""

OPEN_AND_TAG = """
import sys, json
sys.modules["hf_xmtc"] = None
from transformers import AutoModel, pipeline
model = AutoModel.from_pretrained("me/tagger", trust_remote_code=True)
tagger = pipeline("text-classification", model="me/tagger", trust_remote_code=True, top_k=None)
answer = {entry["label"]: entry["score"] for entry in tagger("edit a text file")}
print(json.dumps([list(model.config.id2label.values()), answer]))
"""

RUN_EXAMPLES_OF_THE_CARD = """
import re, sys
sys.modules["hf_xmtc"] = None
from huggingface_hub import ModelCard
card = ModelCard.load("me/tagger")
examples = re.findall(r"```python\\n(.*?)```", card.text, flags=re.DOTALL)
names = {}
for example in examples:
    exec(example, names)
print(len(examples), len(names["tagger"]("Your text", top_k=5)), tuple(names["output"].top_labels.shape))
"""


def test_script_publishes_a_model_that_reopens_from_an_empty_cache_with_equal_scores(hub, run_client, model_folder):
    done = run_client(PUSH_SCRIPT, "--model", model_folder, "--repo_id", "me/tagger")
    assert f"Published at {hub.url}/me/tagger" in done.stdout
    sent = hub.repos["me/tagger"].files()
    assert sent["model.safetensors"] == (model_folder / "model.safetensors").read_bytes()
    done = run_client(OPEN_AND_SCORE, "main", cache="empty-cache")
    assert json.loads(done.stdout) == pytest.approx(_logits(model_folder), abs=1e-6)


def test_push_to_hub_of_model_and_tokenizer_is_enough_to_open_them_elsewhere(hub, run_client, tiny_model_folder):
    run_client(PUSH_MODEL_AND_TOKENIZER, tiny_model_folder)
    assert {"labels.json", "modeling_bertxml.py", "pipeline_xmtc.py"} <= set(hub.repos["me/tagger"].files())
    names, answer = json.loads(run_client(OPEN_AND_TAG, cache="empty-cache").stdout)
    assert names == json.loads((tiny_model_folder / "labels.json").read_text())
    scores = torch.tensor(_logits(tiny_model_folder)).sigmoid().tolist()
    assert answer == pytest.approx(dict(zip(names, scores, strict=True)), abs=1e-6)


def test_examples_of_the_card_run_as_they_stand(run_client, push, model_folder):
    push(model_folder, "me/tagger")
    done = run_client(RUN_EXAMPLES_OF_THE_CARD)
    assert done.stdout.strip() == "2 5 (1, 5)"  # examples, labels of the pipeline, shape of the model's answer


RUN_EXAMPLE_OF_A_CARD_WITH_CANDIDATES = """
import json, re
from huggingface_hub import ModelCard
(example,) = re.findall(r"```python\\n(.*?)```", ModelCard.load("me/tagger").text, flags=re.DOTALL)
names = {}
exec(example, names)
print(json.dumps(names["tagger"]("edit a text file", top_k=5)))
"""


@pytest.mark.parametrize("kind", ["index", "model"])
def test_a_model_of_candidates_brings_its_generator_along(hub, run_client, push, tmp_path, kind):
    folder, labels = tmp_path / "tagger", ["editing", "library", "music", "program", "text"]
    texts = ["edit a plain text file", "play music and sound files", "a library of sound filters", "show a picture"]
    tokenizer = train_word_tokenizer(texts, num_cls_tokens=1, max_length=32)
    sizes = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
    settings = {"num_candidates": 3, "backbone_config": sizes}
    model = LACOForXMTC(LACOConfig.for_tokenizer(tokenizer, label_names=labels, **settings)).eval()
    if kind == "index":
        generator = CandidateGenerator.fit(texts, [[0, 4], [2, 3], [1], [3]], 5, min_document_frequency=1)
    else:
        generator = ModelCandidates(*open_model(str(save_small_cnn(tmp_path / "cnn", labels[::-1]))), LabelNames(labels))
    for part in (model, tokenizer, generator):
        part.save_pretrained(folder)
    (folder / "metrics.json").write_text(json.dumps({"test": {"nDCG@5": 0.5, "generator_nDCG@5": 0.25}}), encoding="utf-8")
    card_from_folder(folder).save(folder / "README.md")
    assert "the candidates' generator alone: ranking quality" in (folder / "README.md").read_text(encoding="utf-8")
    push(folder, "me/tagger")
    answer = json.loads(run_client(RUN_EXAMPLE_OF_A_CARD_WITH_CANDIDATES).stdout)
    expected = XMTCPipeline(model=model, tokenizer=tokenizer)("edit a text file", candidates=generator)
    assert len(answer) == 3 and [entry["label"] for entry in answer] == [entry["label"] for entry in expected]
    assert [entry["score"] for entry in answer] == pytest.approx([entry["score"] for entry in expected], abs=1e-6)


def test_revision_pins_the_older_weights(hub, run_client, push, model_folder):
    push(model_folder, "me/tagger")
    first = hub.repos["me/tagger"].resolve("main")
    before = _logits(model_folder)
    _change_weights(model_folder)
    push(model_folder, "me/tagger")
    pinned, latest = run_client(OPEN_AND_SCORE, first, "main").stdout.splitlines()
    assert json.loads(pinned) == pytest.approx(before, abs=1e-6)
    assert json.loads(latest) == pytest.approx(_logits(model_folder), abs=1e-6) != pytest.approx(before, abs=1e-3)


# Names at an older revision: of a model, and of a config alone, which must not answer with those of another revision.
OPEN_NAMES = """
import json, sys
from transformers import AutoConfig, AutoModel
for revision in sys.argv[1:]:
    model = AutoModel.from_pretrained("me/tagger", trust_remote_code=True, revision=revision)
    print(json.dumps(model.config.label_names.labels))
    try:
        config = AutoConfig.from_pretrained("me/tagger", trust_remote_code=True, revision=revision)
        print(json.dumps(config.label_names.labels))
    except ValueError as error:
        print(json.dumps(str(error)))
"""


def test_a_revision_has_its_own_label_names(hub, run_client, push, model_folder):
    push(model_folder, "me/tagger")
    first, before = hub.repos["me/tagger"].resolve("main"), LabelNames.load(model_folder).labels
    model = BertXMLForXMTC.from_pretrained(model_folder)
    model.config.label_names = LabelNames(before[::-1])
    model.save_pretrained(model_folder)
    push(model_folder, "me/tagger", "--overwrite")
    answers = [json.loads(line) for line in run_client(OPEN_NAMES, first, "main").stdout.splitlines()]
    assert answers[0] == before
    assert answers[1] == before or "is not the file that was saved with this config" in answers[1]
    assert answers[2:] == [before[::-1], before[::-1]]


def test_push_to_a_branch_leaves_main_as_it_is(hub, push, model_folder):
    push(model_folder, "me/tagger")
    old = hub.repos["me/tagger"].files()["model.safetensors"]
    _change_weights(model_folder)
    assert "/me/tagger/tree/longer" in push(model_folder, "me/tagger", "--revision", "longer")
    assert hub.repos["me/tagger"].files("main")["model.safetensors"] == old
    assert hub.repos["me/tagger"].files("longer")["model.safetensors"] != old


def test_missing_repo_is_named_when_opening(run_client):
    done = run_client(OPEN_AND_SCORE, "main", fails=True)
    assert "me/tagger is not a local folder and is not a valid model identifier" in done.stderr


def test_interrupted_download_leaves_nothing_that_loads_and_a_second_try_succeeds(hub, run_client, push, model_folder):
    push(model_folder, "me/tagger")
    # The client waits a second before each of its retries, which the test need not.
    impatient = "import time\ntime.sleep = lambda seconds: None\n" + OPEN_AND_SCORE
    hub.cut_downloads_of = "model.safetensors"
    done = run_client(impatient, "main", cache="interrupted", fails=True)
    assert "Trying to resume download" in done.stderr and not done.stdout
    done = run_client(OPEN_AND_SCORE, "main", cache="interrupted", fails=True, HF_HUB_OFFLINE="1")
    assert not done.stdout  # what arrived before the interruption does not pass for a model
    hub.cut_downloads_of = None
    done = run_client(OPEN_AND_SCORE, "main", cache="interrupted")
    assert json.loads(done.stdout) == pytest.approx(_logits(model_folder), abs=1e-6)


def test_licence_is_put_into_the_published_card_alone(hub, push, model_folder, tmp_path):
    push(model_folder, "me/tagger", "--license", "cc-by-4.0")
    (tmp_path / "card.md").write_bytes(hub.repos["me/tagger"].files()["README.md"])
    published, kept = ModelCard.load(tmp_path / "card.md"), ModelCard.load(model_folder / "README.md")
    assert (published.data.license, kept.data.license) == ("cc-by-4.0", None)
    assert published.text == kept.text.replace("<user>/<model>", "me/tagger")
    assert published.data.to_dict() == {**kept.data.to_dict(), "license": "cc-by-4.0"}


def test_card_survives_the_round_trip_with_its_results_and_the_name_of_the_repo(hub, push, model_folder, tmp_path):
    push(model_folder, "me/tagger")
    (tmp_path / "card.md").write_bytes(hub.repos["me/tagger"].files()["README.md"])
    card = ModelCard.load(tmp_path / "card.md")
    values = {result.metric_name: result.metric_value for result in card.data.eval_results if result.dataset_split == "test"}
    expected = json.loads((model_folder / "metrics.json").read_text())["test"]
    assert values == {name: value for name, value in expected.items() if not name.startswith("num_")}
    assert 'model="me/tagger"' in card.text and "<user>" not in card.text
    assert "<user>/<model>" in ModelCard.load(model_folder / "README.md").text  # the folder itself is not changed


def test_checkpoints_and_hidden_files_stay_behind_and_this_is_said(hub, push, model_folder, caplog):
    for name in ("checkpoint-100/optimizer.pt", ".cache/index", "predictions/test.parquet"):
        (model_folder / name).parent.mkdir(exist_ok=True)
        (model_folder / name).write_bytes(b"content")
    push(model_folder, "me/tagger")
    assert "2 entries are not part of a model and stay here: .cache/, checkpoint-100/" in caplog.text
    sent = set(hub.repos["me/tagger"].files())
    assert "predictions/test.parquet" in sent
    assert not [name for name in sent if name.startswith(("checkpoint-", ".cache"))]


# What lies beside a model in practice, and must not leave the machine.
SECRETS = (
    *(
        "token",
        "hf_token.txt",
        "id_rsa",
        "server.pem",
        "credentials.json",
        "secrets.yaml",
        ".env",
        ".netrc",
        "train.log",
        "nohup.out",
    ),
    *(
        "texts.csv",
        "metrics.json.tmp",
        "averaged_model.safetensors",
        "notes.py",
        "trainer_state.json",
        "private.png",
        "MODEL.SAFETENSORS",
    ),
    *(
        "mydata/train.parquet",
        "wandb/run-1/output.log",
        "checkpoints/notes.txt",
        "predictions/texts.parquet",
        "candidates/notes.txt",
    ),
    *("predictions/sub/test.parquet", "runs/events", "candidates/.hidden"),
)


def test_only_a_model_is_pushed_and_the_rest_is_listed(hub, push, model_folder, capsys):  # AC-49
    for name in SECRETS:
        (model_folder / name).parent.mkdir(parents=True, exist_ok=True)
        (model_folder / name).write_text("top secret")
    belong = {
        "LICENSE",
        "training_log.json",
        "training_args.json",
        "training_curve.png",
        "predictions/test.parquet",
        "mine.png",
    }
    for name in belong:
        (model_folder / name).write_bytes(b"{}")
    with (model_folder / "README.md").open("a", encoding="utf-8") as card:
        card.write("\n![what I saw](mine.png)\n")
    said = push(model_folder, "me/tagger", "--dry_run")
    listed = {line.split("  ")[-1].strip() for line in said.splitlines()}
    push(model_folder, "me/tagger")
    sent = hub.repos["me/tagger"].files()
    assert belong <= set(sent) and not set(SECRETS) & set(sent)
    assert not [name for name, content in sent.items() if b"top secret" in content]
    assert set(sent) - {".gitattributes"} <= listed
    stays = said[said.index("stay here") :]
    for name in (
        "token",
        "id_rsa",
        "server.pem",
        ".env",
        "mydata/",
        "wandb/",
        "predictions/texts.parquet",
        "candidates/notes.txt",
    ):
        assert name in stays


def _link(path: Path, target: Path | str) -> None:
    path.unlink(missing_ok=True)
    path.symlink_to(target)


def test_links_to_the_outside_loops_and_links_to_nowhere_stay_behind(hub, push, model_folder, tmp_path):  # AC-71
    private = tmp_path / "private"
    private.mkdir()
    (private / "passwords.txt").write_text("top secret")
    links = {
        "leak.txt": private / "passwords.txt",
        "linkdir": private,
        "loop": ".",
        "loop2": "..",
        "nothing": "nowhere",
        "self": "self",
    }
    for name, target in links.items():
        _link(model_folder / name, target)
    _link(model_folder / "wandb", private)
    for options in (["--dry_run"], []):
        said = push(model_folder, "me/tagger", *options)
        assert "would go to" in said or "Published" in said
    sent = hub.repos["me/tagger"].files()
    assert not set(links) & {name.partition("/")[0] for name in sent}
    assert not [name for name, content in sent.items() if b"top secret" in content]


@pytest.mark.parametrize(
    ("name", "target", "reason"),
    [
        ("LICENSE", "{private}/passwords.txt", "leads out of the folder"),
        ("model.safetensors", "{private}/passwords.txt", "leads out of the folder"),
        ("predictions", "{private}", None),
        ("candidates", "{private}", None),
        ("predictions/test.parquet", "{private}/passwords.txt", "leads out of the folder"),
        ("metrics.json", "metrics.json", "leads nowhere"),
        ("metrics.json", "gone.json", "leads nowhere"),
        ("metrics.json", ".", "leads to a folder"),
    ],
)
@pytest.mark.parametrize("options", [["--dry_run"], []], ids=["dry", "real"])
# AC-71
def test_a_file_of_the_model_that_is_a_link_to_elsewhere_is_refused(
    hub, push, model_folder, tmp_path, name, target, reason, options
):
    private = tmp_path / "private"
    private.mkdir()
    for secret in ("passwords.txt", "test.parquet", "candidates.json"):
        (private / secret).write_text("top secret")
    (model_folder / name).parent.mkdir(exist_ok=True)
    _link(model_folder / name, target.format(private=private))
    if reason is None:  # a linked folder is not looked into
        push(model_folder, "me/tagger", *options)
        assert not options or hub.requests == []
        assert all(b"top secret" not in content for repo in hub.repos.values() for content in repo.files().values())
    else:
        said = push(model_folder, "me/tagger", *options, fails=True)
        assert f"{name} is a link that {reason}" in said and "Put the file itself there" in said and hub.requests == []


def test_a_snapshot_of_the_hubs_cache_is_pushed_though_it_is_made_of_links(hub, push, model_folder, tmp_path):  # AC-71
    blobs, snapshot = tmp_path / "models--me--x" / "blobs", tmp_path / "models--me--x" / "snapshots" / "abc"
    blobs.mkdir(parents=True)
    snapshot.mkdir(parents=True)
    for number, path in enumerate(sorted(model_folder.iterdir())):
        path.rename(blobs / str(number))
        (snapshot / path.name).symlink_to(Path("../../blobs") / str(number))
    push(snapshot, "me/tagger")
    assert hub.repos["me/tagger"].files()["model.safetensors"] == (snapshot / "model.safetensors").read_bytes()


def test_links_within_the_folder_are_pushed_as_files(hub, push, model_folder):  # AC-71
    (model_folder / "README.md").rename(model_folder / "README.en.md")
    _link(model_folder / "README.md", "README.en.md")
    push(model_folder, "me/tagger")
    assert b"me/tagger" in hub.repos["me/tagger"].files()["README.md"]


def test_private_repo_is_made_private_and_a_public_one_is_not_taken_for_one(hub, push, model_folder):
    push(model_folder, "me/secret", "--private")
    assert hub.repos["me/secret"].private
    push(model_folder, "me/open")
    commits = len(hub.repos["me/open"].commits)
    said = push(model_folder, "me/open", "--private", fails=True)
    assert "me/open is public, but private=True was asked for" in said
    assert len(hub.repos["me/open"].commits) == commits


@pytest.mark.parametrize(
    ("other_labels", "difference"),
    [
        (["a", "b"], "num_labels=2 there, 5 in the folder"),
        (
            ["interface::text", "role::library", "role::program", "use::playing", "works-with::audio"],
            "label id 3 is 'use::playing' there, 'use::editing' in the folder",
        ),
    ],
)
def test_another_model_on_the_hub_is_replaced_only_on_request(hub, push, model_folder, tmp_path, other_labels, difference):
    other = Path(shutil.copytree(model_folder, tmp_path / "other"))
    _rewrite_json(other / "config.json", num_labels=len(other_labels))
    (other / "labels.json").write_text(json.dumps(other_labels))
    (other / "LICENSE").write_text("of the other model")
    push(other, "me/tagger")
    before = hub.repos["me/tagger"].files()
    said = push(model_folder, "me/tagger", fails=True)
    assert f"The repo me/tagger holds another model: {difference}" in said and "--overwrite" in said
    assert hub.repos["me/tagger"].files() == before
    push(model_folder, "me/tagger", "--overwrite")
    after = hub.repos["me/tagger"].files()
    assert after["labels.json"] == (model_folder / "labels.json").read_bytes()
    assert "LICENSE" not in after and ".gitattributes" in after


def test_another_model_type_on_the_hub_is_refused(push, model_folder):
    push(model_folder, "me/tagger")
    _rewrite_json(model_folder / "config.json", model_type="xlnet")
    assert "model_type='bertxml' there, 'xlnet' in the folder" in push(model_folder, "me/tagger", fails=True)


def test_repo_with_weights_of_unknown_kind_is_refused(hub, push, model_folder):
    push(model_folder, "me/tagger")
    del hub.repos["me/tagger"].commits[hub.repos["me/tagger"].branches["main"]]["config.json"]
    said = push(model_folder, "me/tagger", fails=True)
    assert "it has weights (model.safetensors) but no readable config.json" in said


@pytest.mark.parametrize("status", [401, 403])
def test_refused_token_is_explained(hub, push, model_folder, status):
    hub.deny_with = status
    said = push(model_folder, "me/tagger", fails=True)
    assert f"refused to write to me/tagger (HTTP {status})" in said and "hf auth login" in said


def test_dry_run_lists_the_files_and_sends_nothing(hub, push, model_folder):
    said = push(model_folder, "me/tagger", "--dry_run")
    assert "model.safetensors" in said and f"would go to {hub.url}/me/tagger" in said
    assert hub.requests == []


@pytest.mark.parametrize("options", [["--dry_run"], []], ids=["dry", "real"])
def test_what_stays_behind_is_said_once(hub, push, model_folder, capsys, caplog, options):
    (model_folder / "notes.txt").write_text("mine")
    said = push(model_folder, "me/tagger", *options) + caplog.text
    assert said.count("1 entry is not part of a model and stays here") == said.count("notes.txt") == 1


def test_incomplete_folder_is_refused_before_anything_is_sent(hub, push, model_folder):
    (model_folder / "tokenizer.json").unlink()
    (model_folder / "training_args.bin").write_bytes(b"\x80\x04.")
    said = push(model_folder, "me/tagger", fails=True)
    assert "missing: tokenizer.json" in said and "training_args.bin" in said
    assert hub.requests == []


def test_path_of_this_machine_in_the_recipe_is_pointed_out(model_folder, caplog):
    (model_folder / "recipe.json").write_text(json.dumps({"train_file": "/home/someone/texts.parquet", "seed": 1}))
    push_folder(model_folder, "me/tagger", dry_run=True)
    assert "paths of this machine" in caplog.text and "train_file" in caplog.text and "seed" not in caplog.text


def test_malformed_repo_id_is_refused(model_folder):
    with pytest.raises(ValueError, match="me/a/b"):
        push_folder(model_folder, "me/a/b", dry_run=True)


def test_missing_folder_is_named(tmp_path, capsys):
    assert push_main(["--model", str(tmp_path / "nowhere"), "--repo_id", "me/tagger"]) == 1
    assert "nowhere is not there" in capsys.readouterr().err


def _logits(folder: Path) -> list[float]:
    """What the folder's model answers in this process, with the classes of the package."""
    tokenizer = AutoTokenizer.from_pretrained(folder)
    with torch.no_grad():
        return (
            BertXMLForXMTC.from_pretrained(folder)(**tokenizer("edit a text file", return_tensors="pt")).logits[0].tolist()
        )


def _rewrite_json(path: Path, **changes: object) -> None:
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


def _change_weights(folder: Path) -> None:
    weights = load_file(folder / "model.safetensors")
    weights = {name: tensor + 0.5 if name.endswith("bias") else tensor for name, tensor in weights.items()}
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})


def test_an_error_of_a_file_is_not_taken_for_one_of_the_network():
    assert issubclass(HfHubHTTPError, TransportError) and not issubclass(FileNotFoundError, TransportError)


def test_a_hub_that_cannot_be_reached_is_said_in_a_line(model_folder, monkeypatch, capsys):
    monkeypatch.setattr("huggingface_hub.hf_api.constants.ENDPOINT", "http://127.0.0.1:9")
    assert push_main(["--model", str(model_folder), "--repo_id", "me/tagger"]) == 1
    said = capsys.readouterr().err
    assert "Nothing was published. The Hub at http://127.0.0.1:9 cannot be reached" in said and "Traceback" not in said
