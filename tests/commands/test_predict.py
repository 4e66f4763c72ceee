import json
import shutil
from pathlib import Path

import datasets
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from predicted import TEXTS, rows_of, run
from transformers import (
    AutoModelForSequenceClassification,
    AutoTokenizer,
    BertConfig,
    BertForSequenceClassification,
    pipeline,
)

from forked_python import run_python
from hf_xmtc.commands import predict
from hf_xmtc.commands.predict import main, predict_texts


# Lengths that do not grow or fall, so that sorting by length changes the order.
def test_seven_documents_in_batches_of_three_give_seven_rows_in_input_order_once(settings, tiny_model_folder):  # AC-25
    summary = run(settings)
    rows = rows_of(settings["output"])
    assert summary.num_documents == summary.total.num_documents == 7
    assert [row["row"] for row in rows] == [0, 1, 2, 3, 4, 5, 6]
    tagger = pipeline("text-classification", model=str(tiny_model_folder), trust_remote_code=True, top_k=3, device="cpu")
    for text, row in zip(TEXTS, rows, strict=True):
        answers = tagger(text)
        assert row["labels"] == [answer["label"] for answer in answers]
        np.testing.assert_allclose(row["scores"], [answer["score"] for answer in answers], rtol=0, atol=1e-6)
    with pytest.raises(FileExistsError, match="exists already"):
        run(settings)
    assert rows_of(settings["output"]) == rows


@pytest.mark.parametrize("ending", ["parquet", "jsonl", "csv", "tsv"])
@pytest.mark.parametrize("output", ["tags.parquet", "tags.jsonl"])
def test_every_input_format_gives_the_same_rows_in_every_output_format(settings, tmp_path, ending, output):
    run(settings)
    table, path = pa.table({"body": TEXTS, "key": [f"k{i}" for i in range(7)]}), tmp_path / f"documents.{ending}"
    if ending == "parquet":
        pq.write_table(table, path)
    elif ending == "jsonl":
        path.write_text("".join(json.dumps(row) + "\n" for row in table.to_pylist()), encoding="utf-8")
    else:
        table.to_pandas().to_csv(path, sep="\t" if ending == "tsv" else ",", index=False)
    output = tmp_path / f"new-{output}"
    run(settings, input=str(path), output=str(output), text_column="body", id_column="key")
    expected = [{**row, "id": f"k{i}"} for i, row in enumerate(rows_of(settings["output"]))]
    assert rows_of(output) == expected


def test_label_ids_and_labels_agree_with_the_model(settings, tiny_model_folder):
    run(settings)
    names = json.loads((tiny_model_folder / "labels.json").read_text(encoding="utf-8"))
    for row in rows_of(settings["output"]):
        assert row["labels"] == [names[label_id] for label_id in row["label_ids"]]
        assert row["scores"] == sorted(row["scores"], reverse=True)


@pytest.mark.parametrize("ending", ["jsonl", "parquet"])
def test_names_for_readers_are_written_where_that_is_asked_for(settings, tiny_model_folder, tmp_path, ending):
    folder = tmp_path / "named"
    shutil.copytree(tiny_model_folder, folder)
    labels = json.loads((folder / "labels.json").read_text(encoding="utf-8"))
    (folder / "labels.json").write_text(json.dumps([{"label": label, "name": label.upper()} for label in labels]))
    changes = {"model": str(folder), "output": str(tmp_path / f"named.{ending}")}
    run(settings, **changes, with_names=True)
    rows = rows_of(changes["output"])
    assert all(row["names"] == [label.upper() for label in row["labels"]] for row in rows) and "names" in rows[0]
    run(settings, **{**changes, "output": str(tmp_path / f"plain.{ending}")})
    assert "names" not in rows_of(tmp_path / f"plain.{ending}")[0]


def test_documents_without_any_label_are_counted(settings, tmp_path):
    summary = run(settings, top_k=None, threshold="1")
    assert summary.total.num_without_labels == 7
    assert "7 of 7 documents got no label: none is likely enough" in summary.describe()
    assert "got no label" not in run(settings, output=str(tmp_path / "five.jsonl")).describe()


def test_a_model_whose_scores_are_no_numbers_is_refused(settings, tmp_path):  # AC-75
    model = AutoModelForSequenceClassification.from_pretrained(settings["model"])
    with torch.no_grad():
        next(model.parameters()).fill_(float("nan"))
    model.save_pretrained(tmp_path / "nan")
    AutoTokenizer.from_pretrained(settings["model"]).save_pretrained(tmp_path / "nan")
    for changes in ({}, {"top_k": None, "threshold": "model"}):
        with pytest.raises(ValueError, match="The model gives the score nan"):
            run(settings, model=str(tmp_path / "nan"), **changes)
    assert not Path(settings["output"]).exists()


def test_texts_that_are_not_valid_unicode_are_counted(settings, tmp_path):  # AC-64
    (tmp_path / "a.jsonl").write_text('{"text": "play \\ud800 music"}\n{"text": "sound"}\n', encoding="utf-8")
    summary = run(settings, input=str(tmp_path / "a.jsonl"))
    assert "1 of 2 documents are not valid Unicode (lone surrogates, each of which was read as U+FFFD)" in summary.describe()
    assert [row["row"] for row in rows_of(settings["output"])] == [0, 1]


def test_predict_texts_takes_whatever_holds_texts(tiny_model_folder):  # AC-37
    model = AutoModelForSequenceClassification.from_pretrained(tiny_model_folder).eval()
    tokenizer = AutoTokenizer.from_pretrained(tiny_model_folder)
    expected = predict_texts(model, tokenizer, TEXTS)[0].tolist()
    column = datasets.Dataset.from_dict({"text": TEXTS})["text"]
    for texts in (tuple(TEXTS), np.array(TEXTS), pd.Series(TEXTS), column, iter(TEXTS)):
        assert predict_texts(model, tokenizer, texts)[0].tolist() == expected
    with pytest.raises(TypeError, match="the one string 'sound'. Pass a list"):
        predict_texts(model, tokenizer, "sound")


def test_scores_do_not_depend_on_batch_and_chunk_size(settings, tmp_path):  # AC-27
    run(settings)
    run(settings, output=str(tmp_path / "one.jsonl"), batch_size=1, chunk_size=1)
    for row, alone in zip(rows_of(settings["output"]), rows_of(tmp_path / "one.jsonl"), strict=True):
        assert row["label_ids"] == alone["label_ids"]
        np.testing.assert_allclose(row["scores"], alone["scores"], rtol=0, atol=1e-6)


def test_empty_texts_get_finite_scores_and_change_no_neighbour(tiny_model_folder):  # AC-28
    model = AutoModelForSequenceClassification.from_pretrained(tiny_model_folder).eval()
    tokenizer = AutoTokenizer.from_pretrained(tiny_model_folder)
    texts = ["", "   ", "☃☃", TEXTS[0]]
    labels, scores, num_truncated = predict_texts(model, tokenizer, texts, top_k=5, max_length=32)
    assert labels.shape == scores.shape == (4, 5)
    assert np.isfinite(scores).all()
    assert num_truncated == 0
    alone, alone_scores, _ = predict_texts(model, tokenizer, texts[3:], top_k=5, max_length=32)
    assert (labels[3] == alone[0]).all()
    np.testing.assert_allclose(scores[3], alone_scores[0], rtol=0, atol=1e-6)
    labels, scores, _ = predict_texts(model, tokenizer, [])
    assert labels.shape == scores.shape == (0, 5)


def test_missing_texts_are_tagged_as_empty_ones_and_counted(settings, tmp_path):  # AC-28
    pq.write_table(pa.table({"text": ["sound", None, "", None]}), tmp_path / "a.parquet")
    summary = run(settings, input=str(tmp_path / "a.parquet"), chunk_size=2)
    rows = rows_of(settings["output"])
    for row in (rows[1], rows[3]):
        np.testing.assert_allclose(row["scores"], rows[2]["scores"], rtol=0, atol=1e-6)
    assert rows[0]["labels"] != rows[2]["labels"]
    assert "3 of 4 documents have no text" in summary.describe()


@pytest.mark.parametrize("ending", ["txt", "jsonl", "csv", "parquet"])
@pytest.mark.parametrize("output", ["tags.parquet", "tags.jsonl"])
def test_an_empty_input_gives_an_empty_output_and_says_so(settings, tmp_path, ending, output):  # AC-28
    path = tmp_path / f"empty.{ending}"
    if ending == "parquet":
        pq.write_table(pa.table({"text": pa.array([], pa.string())}), path)
    else:
        path.write_text("text\n" if ending == "csv" else "")
    summary = run(settings, input=str(path), output=str(tmp_path / output))
    assert rows_of(tmp_path / output) == []
    assert "The input is empty" in summary.describe()


def test_low_scores_are_left_out_and_top_k_stops_at_the_number_of_labels(settings, tmp_path):
    run(settings, top_k=50)
    everything = rows_of(settings["output"])
    assert {len(row["labels"]) for row in everything} == {5}
    run(settings, top_k=50, min_score=0.5, output=str(tmp_path / "high.jsonl"))
    for row, high in zip(everything, rows_of(tmp_path / "high.jsonl"), strict=True):
        assert high["scores"] == [score for score in row["scores"] if score >= 0.5]
        assert len(high["labels"]) == len(high["label_ids"]) == len(high["scores"])


def test_sets_of_labels_are_those_above_a_number_or_the_thresholds_of_the_model(settings, tmp_path, tiny_model_folder):
    run(settings, top_k=50)
    everything = rows_of(settings["output"])
    scores = sorted(score for row in everything for score in row["scores"])
    gap = int(np.diff(scores).argmax())
    middle = (scores[gap] + scores[gap + 1]) / 2  # where no score is near, so that rounding decides nothing
    run(settings, top_k=None, threshold=str(middle), output=str(tmp_path / "above.jsonl"))
    for row, above in zip(everything, rows_of(tmp_path / "above.jsonl"), strict=True):
        assert above["scores"] == [score for score in row["scores"] if score > middle]
    run(settings, threshold=str(middle), top_k=1, output=str(tmp_path / "one.jsonl"))
    assert all(len(row["labels"]) <= 1 for row in rows_of(tmp_path / "one.jsonl"))

    model = AutoModelForSequenceClassification.from_pretrained(tiny_model_folder)
    thresholds = torch.tensor([0.0, 1.0, middle, 0.0, 1.0])
    model.set_thresholds(thresholds)
    folder = tmp_path / "tuned"
    shutil.copytree(tiny_model_folder, folder)
    model.save_pretrained(folder)
    run(settings, top_k=None, model=str(folder), threshold="model", output=str(tmp_path / "sets.jsonl"))
    for row, found in zip(everything, rows_of(tmp_path / "sets.jsonl"), strict=True):
        pairs = zip(row["label_ids"], row["scores"], strict=True)
        assert found["label_ids"] == [label_id for label_id, score in pairs if score > thresholds[label_id]]


def test_long_texts_are_cut_at_the_limit_and_counted(settings, tmp_path, texts):  # AC-34
    texts.write_text("sound " * 5000 + "\nsound\n", encoding="utf-8")
    assert "1 of 2 documents were cut at 32 tokens" in run(settings).describe()
    summary = run(settings, max_length=10, output=str(tmp_path / "ten.jsonl"))
    assert "1 of 2 documents were cut at 10 tokens" in summary.describe()
    texts.write_text("sound " * 8 + "\nsound\n", encoding="utf-8")  # 2 CLS tokens and 8 words
    run(settings, output=str(tmp_path / "cut.jsonl"))
    assert rows_of(tmp_path / "ten.jsonl")[0]["labels"] == rows_of(tmp_path / "cut.jsonl")[0]["labels"]


def test_batches_of_texts_of_one_length_are_not_padded(tiny_model_folder, monkeypatch):
    model = AutoModelForSequenceClassification.from_pretrained(tiny_model_folder).eval()
    tokenizer = AutoTokenizer.from_pretrained(tiny_model_folder)
    shapes = []
    forward = model.forward

    def record(input_ids, attention_mask, top_k):
        shapes.append(tuple(input_ids.shape))
        assert attention_mask.all()
        return forward(input_ids=input_ids, attention_mask=attention_mask, top_k=top_k)

    monkeypatch.setattr(model, "forward", record)
    predict_texts(model, tokenizer, ["sound", "play sound files", "text", "edit text file"], batch_size=2, max_length=32)
    assert shapes == [(2, 5), (2, 3)]  # 2 CLS tokens and 3 words, then 1 word


@pytest.mark.parametrize("side", ["left", "right"])
def test_batches_are_padded_on_the_tokenizers_side_without_a_warning(tiny_model_folder, monkeypatch, capfd, side):
    model = AutoModelForSequenceClassification.from_pretrained(tiny_model_folder).eval()
    tokenizer = AutoTokenizer.from_pretrained(tiny_model_folder, padding_side=side)
    batches = []
    forward = model.forward

    def record(input_ids, attention_mask, top_k):
        batches.append((input_ids, attention_mask))
        return forward(input_ids=input_ids, attention_mask=attention_mask, top_k=top_k)

    monkeypatch.setattr(model, "forward", record)
    predict_texts(model, tokenizer, ["sound", "play sound files"], max_length=32)
    ((input_ids, attention_mask),) = batches
    padding = [0, 1] if side == "left" else [3, 4]  # the second text has one word and two CLS tokens of five
    assert attention_mask.tolist() == [[1] * 5, [int(column not in padding) for column in range(5)]]
    assert (input_ids[1, padding] == tokenizer.pad_token_id).all() and input_ids.dtype == torch.long
    assert "fast tokenizer" not in "".join(capfd.readouterr())


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"top_k": 0}, "--top_k is 0 but must be at least 1"),
        ({"min_score": 1.5}, "--min_score is 1.5 but scores lie between 0 and 1"),
        ({"threshold": "1.5"}, "--threshold is '1.5' but must be a number from 0 to 1, or 'model'"),
        ({"threshold": "own"}, "--threshold is 'own' but must be"),
        ({"max_length": 33}, "--max_length is 33 but the model takes 32 tokens"),
        ({"max_length": 2}, "max_length=2 leaves no room for text"),
        ({"output": "tags.xml"}, r"ends in '\.xml'; give a name ending in \.parquet, \.jsonl or \.csv"),
        ({"input_format": "csv", "text_column": "body"}, "no column 'body'; its columns are 'edit a plain text file'"),
        ({"device": "warp"}, "--device warp cannot be used"),
    ],
)
def test_bad_settings_are_refused_and_leave_nothing(settings, tmp_path, change, message):
    with pytest.raises(ValueError, match=message):
        run(settings, **change)
    assert [path.name for path in tmp_path.iterdir()] == ["texts.txt"]


def test_an_output_that_is_the_input_is_refused(settings, tmp_path):
    (tmp_path / "a.jsonl").write_text('{"text": "sound"}\n', encoding="utf-8")
    with pytest.raises(ValueError, match="--input and --output are both"):
        run(settings, input=str(tmp_path / "a.jsonl"), output=str(tmp_path / "a.jsonl"), overwrite=True)


def test_several_processes_are_refused(settings, monkeypatch):
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(ValueError, match="2 processes were started, and each would write the same file"):
        run(settings)


def test_a_folder_that_is_not_beside_the_others_is_not_looked_for_on_the_hub(settings, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "outputs").mkdir()
    settings["model"] = "outputs/nope"
    with pytest.raises(FileNotFoundError, match="There is no model folder outputs/nope"):
        run(settings)


def test_incomplete_damaged_and_foreign_models_are_refused(settings, tmp_path):
    folder = Path(shutil.copytree(settings["model"], tmp_path / "model"))
    settings["model"] = str(folder)
    weights = (folder / "model.safetensors").read_bytes()
    (folder / "model.safetensors").write_bytes(weights[:-10])
    with pytest.raises(ValueError, match="The weights of .*model are damaged"):
        run(settings)
    (folder / "model.safetensors").unlink()
    (folder / "tokenizer.json").unlink()
    with pytest.raises(FileNotFoundError, match=r"not complete: tokenizer\.json, model\.safetensors missing"):
        run(settings)
    with pytest.raises(FileNotFoundError, match="There is no model folder"):
        run(settings, model=str(tmp_path / "nothing"))
    bert = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 1, "intermediate_size": 8, "vocab_size": 40}
    BertForSequenceClassification(BertConfig(**bert)).save_pretrained(tmp_path / "bert")
    for name in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copy(Path(settings["model"]) / "tokenizer_config.json", tmp_path / "bert" / name)
    with pytest.raises(ValueError, match="is a BertForSequenceClassification, not a model of hf_xmtc"):
        run(settings, model=str(tmp_path / "bert"))


def test_the_command_line_ends_with_documents_seconds_and_speed(settings, capsys, monkeypatch):
    monkeypatch.setattr(torch, "set_num_threads", lambda number: None)
    arguments = [part for name, value in settings.items() for part in (f"--{name}", str(value))]
    main(arguments)
    last = capsys.readouterr().out.splitlines()[-1]
    assert last.startswith("7 documents in ") and last.endswith(f"documents per second: {settings['output']}")
    with pytest.raises(SystemExit, match="FileExistsError: .*exists already"):
        main(arguments)
    main([*arguments, "--overwrite"])
    with pytest.raises(SystemExit) as stopped:
        main(["--model", "x"])
    assert stopped.value.code == 2
    assert "--input" in capsys.readouterr().err


def test_an_interruption_by_the_user_says_how_to_go_on(settings, capsys, monkeypatch):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(torch, "set_num_threads", lambda number: None)
    monkeypatch.setattr(predict, "predict_file", interrupted)
    with pytest.raises(SystemExit) as stopped:
        main(["--model", settings["model"], "--input", settings["input"], "--output", settings["output"]])
    assert stopped.value.code == 130
    assert "Repeat the command to go on where this run stopped" in capsys.readouterr().err


def test_the_script_works_from_a_pipe(settings, texts):
    script = Path(__file__).parents[2] / "scripts" / "predict.py"
    options = ["--model", settings["model"], "--input", "-", "--input_format", "txt", "--output", settings["output"]]
    done = run_python(script, *options, "--device", "cpu", "--num_threads", "1", stdin=texts.read_text(encoding="utf-8"))
    assert done.returncode == 0, done.stderr
    assert "7 documents in" in done.stdout
    assert len(rows_of(settings["output"])) == 7


def test_the_script_says_what_it_recognised_and_what_it_does_not_use(settings, tmp_path):
    script, path = Path(__file__).parents[2] / "scripts" / "predict.py", tmp_path / "cooking.txt"
    path.write_text("__label__food Why salt?\nsound\n", encoding="utf-8")
    options = ["--model", settings["model"], "--input", str(path), "--output", settings["output"]]
    done = run_python(script, *options, "--device", "cpu", "--num_threads", "1")
    assert done.returncode == 0, done.stderr
    assert f"{path} is read as fasttext: line 1 begins with __label__." in done.stderr
    assert "The labels of 1 document are not used." in done.stdout
