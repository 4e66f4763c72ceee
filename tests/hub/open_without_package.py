"""Run as a script: open exported model folders without this package and report what came out.

Reads jobs from standard input, a JSON list of ``{"name", "folder", "open_as", "cwd", "text", "input_ids", "save_to"}``, and
writes one JSON object with a result per job into the file that is its argument (libraries print to standard output).
"""

import builtins
import filecmp
import inspect
import json
import logging
import os
import sys

from only_torch_and_transformers import hide_everything_else

hide_everything_else()

import torch  # noqa: E402
from safetensors.torch import load_file  # noqa: E402
from transformers import AutoConfig, AutoModel, AutoModelForSequenceClassification, AutoTokenizer, pipeline  # noqa: E402
from transformers.utils import logging as transformers_logging  # noqa: E402


class _Kept(logging.Handler):
    def __init__(self):
        super().__init__(logging.WARNING)
        self.messages: list[str] = []

    def emit(self, record):
        self.messages.append(record.getMessage())


def code_of_others(opened: type, folder: str) -> list[str]:
    """Files that run beside a class and are not those of the folder it was opened from."""
    running = os.path.dirname(inspect.getfile(opened))
    names = sorted(set(os.listdir(running)) & set(os.listdir(folder)) - {"__pycache__"})
    return [
        name for name in names if not filecmp.cmp(os.path.join(running, name), os.path.join(folder, name), shallow=False)
    ]


@torch.no_grad()
def open_folder(job: dict) -> dict:
    if job.get("cwd"):
        os.chdir(job["cwd"])
    path = job["open_as"]
    # AutoTokenizer looks at the model's config first, which needs its code, and asks whether to trust it where nobody has said so.
    # Told not to, it opens the plain tokenizer without a question.
    asked = []
    builtins.input = lambda question="": asked.append(question) or "n"
    model, report = AutoModel.from_pretrained(path, trust_remote_code=True, output_loading_info=True)
    stored = load_file(os.path.join(job["folder"], "model.safetensors"))
    state = model.state_dict()
    result = {
        "class": f"{type(model).__module__}.{type(model).__name__}",
        "report": {key: sorted(map(str, value)) for key, value in report.items() if value},
        "all_tensors": state.keys() == stored.keys(),
        "differing": [name for name, tensor in stored.items() if not torch.equal(tensor, state[name])],
        "num_labels": AutoConfig.from_pretrained(path, trust_remote_code=True).num_labels,
        "labels": list(model.config.id2label.values()),
        "training": model.training,
        "code_of_others": code_of_others(type(model), path) + code_of_others(type(model.config), path),
    }
    if "input_ids" in job:
        result["logits"] = model(torch.tensor(job["input_ids"])).logits.tolist()
    if "text" in job:
        tokens = AutoTokenizer.from_pretrained(path, trust_remote_code=False)(job["text"], return_tensors="pt")
        classifier = AutoModelForSequenceClassification.from_pretrained(path, trust_remote_code=True)
        result["logits"] = classifier(**tokens).logits.tolist()
        tagger = pipeline("text-classification", model=path, trust_remote_code=True)
        result["pipeline"] = type(tagger).__name__
        result["answer"] = tagger(job["text"], top_k=None)
    if "save_to" in job:
        model.save_pretrained(job["save_to"])
        AutoTokenizer.from_pretrained(path, trust_remote_code=False).save_pretrained(job["save_to"])
    result["asked"] = asked
    return result


def main() -> None:
    torch.set_num_threads(1)
    kept = _Kept()
    transformers_logging.get_logger("transformers").addHandler(kept)
    logging.getLogger().addHandler(kept)
    results = {}
    for job in json.load(sys.stdin):
        kept.messages = []
        results[job["name"]] = {**open_folder(job), "warnings": kept.messages}
    hidden = {}
    for package in ("hf_xmtc", "datasets", "accelerate", "evaluate", "pytest", "scipy", "sklearn"):
        try:
            __import__(package)
            hidden[package] = False
        except ModuleNotFoundError:
            hidden[package] = True
    with open(sys.argv[1], "w", encoding="utf-8") as file:
        json.dump({"results": results, "hidden": hidden}, file)


if __name__ == "__main__":
    main()
