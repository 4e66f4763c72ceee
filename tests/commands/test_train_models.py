"""`hf-xmtc train`: families, encoders and word vectors, and what is refused."""

import json

import psutil
import pytest
from safetensors.torch import load_file
from small_runs import TEXT_FILES, TINY_WORD_FAMILIES
from transformers import AutoModel, AutoTokenizer, BertConfig, BertModel, PreTrainedTokenizerFast, pipeline

import hf_xmtc.commands.training_run as run_module
from hf_xmtc.commands import export_check
from hf_xmtc.hub.verify import check_model_folder
from small_corpus import WORDS, make_documents, write_corpus, write_split

# ---- models --------------------------------------------------------------------------------------------------------------


def test_unknown_families_and_settings_are_refused(train, tmp_path):
    with pytest.raises(SystemExit, match="model_family='bert' is unknown. The families are: attentionxml, bertxml"):
        train(tmp_path / "run", model_family="bert")
    with pytest.raises(
        SystemExit,
        match="config_overrides names 'hiden_size', which BertXMLConfig does not have. Did you mean 'hidden_size'",
    ):
        train(tmp_path / "run", config_overrides="hiden_size=3")
    assert not (tmp_path / "run").exists()


def test_what_does_not_fit_into_memory_is_refused(train, monkeypatch, tmp_path):
    free = psutil.virtual_memory()._replace(available=2**10)
    monkeypatch.setattr(psutil, "virtual_memory", lambda: free)
    with pytest.raises(SystemExit, match="MemoryError: Expected memory: about .* 0 MiB are free on cpu. Lower per_device"):
        train(tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_word_embeddings_start_from_a_vector_file(train, unchecked, tmp_path):
    vectors = tmp_path / "vectors.txt"
    vectors.write_text("".join(f"{word} {' '.join(['0.5'] * 16)}\n" for word in ("cat", "song", "unheard")))
    told = train(tmp_path / "run", word_vectors=vectors, max_steps=1, learning_rate=0)
    assert "2 of " in told and "words start from a pretrained vector" in told
    tokenizer, model = (kind.from_pretrained(tmp_path / "run") for kind in (AutoTokenizer, AutoModel))
    table = model.get_input_embeddings().weight
    assert (table[tokenizer.convert_tokens_to_ids("cat")] == 0.5).all()
    assert (table[tokenizer.convert_tokens_to_ids("dog")] != 0.5).all()
    with pytest.raises(
        SystemExit, match="word vectors have 16 dimensions but hidden_size=8. Add --config_overrides hidden_size=16"
    ):
        train(tmp_path / "other", word_vectors=vectors, config_overrides="hidden_size=8,num_attention_heads=2")


@pytest.fixture
def bert_folder(tmp_path, own_caches):
    """A BERT of one layer with a tokenizer of the corpus's words."""
    from tokenizers import Tokenizer, models, pre_tokenizers, processors

    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "the", "of", *(word for group in WORDS.values() for word in group)]
    engine = Tokenizer(models.WordLevel({word: i for i, word in enumerate(words)}, unk_token="[UNK]"))
    engine.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    engine.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    special = {"pad_token": "[PAD]", "unk_token": "[UNK]", "cls_token": "[CLS]", "sep_token": "[SEP]"}
    PreTrainedTokenizerFast(tokenizer_object=engine, model_max_length=16, **special).save_pretrained(tmp_path / "bert")
    sizes = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
    BertModel(BertConfig(vocab_size=len(words), max_position_embeddings=16, **sizes)).save_pretrained(tmp_path / "bert")
    return tmp_path / "bert"


def test_a_pretrained_encoder_is_fine_tuned_and_leaves_no_trace_of_its_folder(train, unchecked, bert_folder, tmp_path):
    train(tmp_path / "run", backbone=bert_folder, config_overrides=None, max_steps=2)
    config = json.loads((tmp_path / "run" / "config.json").read_text())
    assert config["backbone_config"]["model_type"] == "bert"
    for path in (tmp_path / "run").rglob("*"):
        if path.suffix in TEXT_FILES:
            assert str(tmp_path) not in path.read_text(encoding="utf-8"), path.name
    assert json.loads((tmp_path / "run" / "recipe.json").read_text())["backbone"] == "bert"
    answers = pipeline("text-classification", model=str(tmp_path / "run"), trust_remote_code=True, top_k=None)("cat")
    assert {answer["label"] for answer in answers} == set(WORDS)


@pytest.mark.parametrize("family", TINY_WORD_FAMILIES)
def test_families_of_words_are_trained_without_cls_tokens_and_open_again(train, family, tmp_path):
    overrides = json.dumps(TINY_WORD_FAMILIES[family])
    folder, data = tmp_path / "run", write_corpus(tmp_path / "data")
    # More empty documents than a batch holds, and the first that are scored again after reopening the folder.
    write_split(data, "train", [*make_documents(12, 0), *[("", ["music"])] * 8])
    write_split(data, "test", [("", ["music"]), ("?!", ["music"]), *make_documents(7, 2)])
    train(folder, dataset=data, model_family=family, num_cls_tokens=None, config_overrides=overrides, sparse_embeddings=True)
    check_model_folder(folder).raise_for_problems()
    recipe = json.loads((folder / "recipe.json").read_text())
    assert recipe["model_family"] == family and "num_cls_tokens" not in recipe
    assert AutoTokenizer.from_pretrained(folder)("")["input_ids"] == []
    answers = pipeline("text-classification", model=str(folder), trust_remote_code=True, top_k=None)(["cat", ""])
    assert all({answer["label"] for answer in document} == set(WORDS) for document in answers)


def test_word_vectors_are_kept_by_a_family_with_frozen_embeddings(train, unchecked, tmp_path):
    vectors = tmp_path / "vectors.txt"
    vectors.write_text("".join(f"{word} {' '.join(['0.5'] * 8)}\n" for word in ("cat", "song", "unheard")))
    settings = {"model_family": "xmlcnn", "num_cls_tokens": None, "word_vectors": vectors, "max_steps": 2}
    overrides = {**TINY_WORD_FAMILIES["xmlcnn"], "freeze_embeddings": True}
    train(tmp_path / "run", **settings, config_overrides=json.dumps(overrides))
    table = load_file(tmp_path / "run" / "model.safetensors")["words.embedding.weight"]
    cat = AutoTokenizer.from_pretrained(tmp_path / "run")("cat")["input_ids"]
    assert (table[cat] == 0.5).all() and (table[0] == 0).all()
    new = table[AutoTokenizer.from_pretrained(tmp_path / "run")("dog bread")["input_ids"]]
    assert 0.7 < new.abs().max() < 1  # uniform from -1 to 1 as with the authors, whatever embedding_initializer_range says
    overrides["embedding_size"] = 9
    with pytest.raises(
        SystemExit, match="vectors have 8 dimensions but embedding_size=9. Add --config_overrides embedding_size=8"
    ):
        train(tmp_path / "other", **settings, config_overrides=json.dumps(overrides))


def test_frozen_words_without_vectors_are_refused(train, unchecked, tmp_path):
    overrides = {**TINY_WORD_FAMILIES["xmlcnn"], "freeze_embeddings": True}
    settings = {"model_family": "xmlcnn", "num_cls_tokens": None, "max_steps": 2}
    with pytest.raises(SystemExit, match="freeze_embeddings=True, but without word_vectors the words start at random"):
        train(tmp_path / "run", **settings, config_overrides=json.dumps(overrides))
    assert not (tmp_path / "run").exists()


def test_a_length_that_the_backbone_cannot_take_is_refused_before_training(train, unchecked, bert_folder, tmp_path):
    with pytest.raises(SystemExit, match=r"max_length_tokens=9000, but the backbone .* takes \d+ tokens"):
        train(tmp_path / "run", backbone=bert_folder, config_overrides=None, max_length_tokens=9000, max_steps=2)
    assert not (tmp_path / "run").exists()


def test_the_check_compares_full_precision_after_training_in_bf16(train, monkeypatch, tmp_path):
    compared = []

    def compare(folder, texts, labels, scores, **settings):
        tagger = pipeline("text-classification", model=str(folder), trust_remote_code=True, top_k=None)
        for text, row, own in zip(texts, labels, scores, strict=True):
            answer = {entry["label"]: entry["score"] for entry in tagger(text)}
            compared.append(max(abs(answer[label] - score) for label, score in zip(row, own, strict=True)))
        return max(compared)

    monkeypatch.setattr(export_check, "check_reopens", compare)
    train(tmp_path / "run", bf16=True, max_steps=2)
    assert len(compared) == 5 and max(compared) < 1e-5


def test_the_finished_folder_is_pushed_with_the_hub_arguments(train, unchecked, monkeypatch, tmp_path):
    pushed = []
    monkeypatch.setattr(run_module, "push_folder", lambda *args, **settings: pushed.append((args, settings)) or "the-hub")
    hub = {"hub_model_id": "me/tagger", "hub_private_repo": True, "hub_token": "hf_secret", "hub_revision": "longer"}
    told = train(tmp_path / "run", push_to_hub=True, max_steps=1, **hub)
    settings = {"private": True, "token": "hf_secret", "revision": "longer"}
    assert pushed == [((tmp_path / "run", "me/tagger"), settings)]
    assert "Pushed to the-hub." in told
    for path in (tmp_path / "run").rglob("*.json"):
        assert "hf_secret" not in path.read_text(), path.name


def test_errors_keep_their_traceback_when_debugging(train, tmp_path):
    with pytest.raises(ValueError, match="model_family='bert' is unknown"):
        train(tmp_path / "run", model_family="bert", log_level="debug")
