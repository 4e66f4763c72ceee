"""A model that holds documents gets further ones and further labels, without training."""

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoModel, AutoTokenizer

from hf_xmtc import LabelNames, NeighborsConfig, NeighborsForXMTC, train_word_tokenizer
from hf_xmtc.models.configuration_neighbors import SIZES
from hf_xmtc.models.stored_documents import Assignments, StoredDocuments, digests_of
from models.families import FAMILIES
from small_corpus import WORDS, make_documents

LABELS = [*WORDS, "empty"]
TEXTS, NAMES = (list(column) for column in zip(*make_documents(40, 0), strict=True))
VOCABULARY = [*TEXTS, "violin trumpet", "the whole orchestra plays symphonies"]


@pytest.fixture(scope="module")
def tokenizer():
    return train_word_tokenizer(VOCABULARY)


@pytest.fixture(params=["words", "encoder"])
def model(request, tokenizer) -> NeighborsForXMTC:
    """Holds the first 30 documents."""
    settings = {"label_names": LABELS, "label_text_weight": 0.2, "num_neighbors": 5}
    if request.param == "words":
        built = NeighborsForXMTC(NeighborsConfig.for_tokenizer(tokenizer, **settings)).eval()
        with torch.no_grad():
            built.words.idf[tokenizer.all_special_ids] = 0  # as training has it
    else:
        encoder = next(family for family in FAMILIES if family.name == "neighbors-on-bert").build().config.backbone_config
        encoder.vocab_size = len(tokenizer)
        torch.manual_seed(0)
        built = NeighborsForXMTC(NeighborsConfig(backbone_config=encoder, label_centroid_weight=0.2, **settings)).eval()
    store(built, tokenizer, 30)
    return built


def store(model: NeighborsForXMTC, tokenizer, count: int) -> None:
    labels = [[LABELS.index(label) for label in row] for row in NAMES[:count]]
    model.store(tokenizer(TEXTS[:count])["input_ids"], labels, tokenizer(LABELS)["input_ids"])


def scores_of(model: NeighborsForXMTC, tokenizer, texts: list[str]) -> torch.Tensor:
    with torch.no_grad():
        return model(**tokenizer(texts, padding=True, return_tensors="pt", return_token_type_ids=False)).logits.sigmoid()


def assert_same_arrays(model: NeighborsForXMTC, other: NeighborsForXMTC) -> None:
    sizes = ("num_labels", *SIZES)
    assert [getattr(model.config, name) for name in sizes] == [getattr(other.config, name) for name in sizes]
    expected = other.state_dict()
    assert model.state_dict().keys() == expected.keys()
    for name, array in model.state_dict().items():
        torch.testing.assert_close(
            array, expected[name], rtol=1e-5, atol=1e-6, msg=lambda text, name=name: f"{name}: {text}"
        )


def test_an_extended_model_is_the_one_that_holds_the_whole(model, tokenizer):
    counts = model.add_documents(TEXTS[30:], NAMES[30:], tokenizer)
    distinct = len({tuple(ids) for ids in tokenizer(TEXTS)["input_ids"]})
    assert len(set(TEXTS)) == distinct == 40 and counts == (10, 0, 0, 0)
    extended, model = model, NeighborsForXMTC(model.config)
    model.load_state_dict(
        {**model.state_dict(), **{k: v for k, v in extended.state_dict().items() if "label_head" not in k}}
    )
    store(model, tokenizer, 40)
    assert_same_arrays(extended, model)


def test_documents_that_are_there_are_not_added_again(model, tokenizer):
    before = {name: array.clone() for name, array in model.state_dict().items()}
    assert model.add_documents(TEXTS[:30], NAMES[:30], tokenizer) == (0, 0, 30, 0)
    assert all(torch.equal(array, before[name]) for name, array in model.state_dict().items())
    assert model.add_documents(TEXTS[29:32] * 2, NAMES[29:32] * 2, tokenizer) == (2, 0, 4, 0)
    assert model.add_documents(TEXTS[29:32], NAMES[29:32], tokenizer) == (0, 0, 3, 0)
    assert model.config.num_documents == 32


def test_a_text_that_is_there_gets_the_labels_that_it_lacks(model, tokenizer):
    assert model.add_documents([TEXTS[3], TEXTS[3], TEXTS[4]], [["empty"], [6, *NAMES[3]], NAMES[4]], tokenizer) == (
        0,
        1,
        2,
        0,
    )
    assert model.config.num_documents == 30
    start, stop = model.label_head.label_offsets[3:5].tolist()
    assert {LABELS[i] for i in model.label_head.label_ids[start:stop].tolist()} == {*NAMES[3], "empty"}
    assert scores_of(model, tokenizer, [TEXTS[3]])[0, 6] > 0.2


def test_new_documents_help_at_once_and_other_scores_stay(model, tokenizer):
    texts = ["violin trumpet", *TEXTS[:8]]
    before = scores_of(model, tokenizer, texts)
    nearest = model.neighbors_of(**tokenizer(texts, padding=True, return_tensors="pt", return_token_type_ids=False)).rows
    assert model.add_documents(["violin trumpet"], [["empty"]], tokenizer) == (1, 0, 0, 0)
    after = scores_of(model, tokenizer, texts)
    assert after[0, 6] > before[0, 6] + 0.1
    voters = model.neighbors_of(**tokenizer(texts, padding=True, return_tensors="pt", return_token_type_ids=False)).rows
    same = (nearest == voters).all(dim=1)
    assert same.any() and not same[0]
    torch.testing.assert_close(after[same, :6], before[same, :6], rtol=0, atol=1e-6)


def test_a_new_label_is_found_by_its_text_at_once(model, tokenizer, tmp_path):
    text, described = (
        "orchestra plays symphonies",
        LabelNames(["place", "n1", "n2"], [None, "orchestra plays", None], [[], ["music"], []]),
    )
    before = scores_of(model, tokenizer, [text])
    assert model.add_labels(described, tokenizer, ["other", "symphonies", None]) == 2
    after = scores_of(model, tokenizer, [text])
    torch.testing.assert_close(after[:, :7], before, rtol=0, atol=1e-6)
    if hasattr(model, "words"):  # by its text alone: 0.2 of the cosine
        assert after[0, 7] >= 0.2 - 1e-5 and after[0, 7] == after[0, 7:].max()
    else:  # its text is its centroid too: 0.4 of the cosine
        inputs = tokenizer([text], return_tensors="pt", return_token_type_ids=False)
        cosines = model.label_head.label_texts.values[7:] @ model.encode(**inputs).values[0]
        torch.testing.assert_close(after[0, 7:], 0.4 * cosines.clamp(min=0), rtol=0, atol=1e-5)
    names = model.config.label_names
    assert (
        names.labels == [*LABELS, "n1", "n2"] and names.name_of(7) == "orchestra plays" and names.parents_of(7) == ["music"]
    )
    assert model.add_labels(["n1", "n2"], tokenizer) == 0
    assert model.add_documents([text], [["n2", "n1"]], tokenizer).new == 1
    assert scores_of(model, tokenizer, [text])[0, 7:].min() > 0.3

    model.save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    opened = AutoModel.from_pretrained(tmp_path, trust_remote_code=True)
    assert_same_arrays(opened, model)
    assert opened.add_documents([text, "the"], [[8], [0]], AutoTokenizer.from_pretrained(tmp_path)) == (1, 0, 1, 0)


def test_texts_that_differ_by_unknown_words_are_different_documents(model, tokenizer):
    texts, labels = ["cat qoph", "cat zayin", "cat zayin"], [["music"], ["tool"], ["tool", "empty"]]
    assert model.add_documents(texts, labels, tokenizer) == (3, 0, 0, 0)
    assert model.label_head.digests[30:].unique().numel() == 1  # what the model is given of them is the same
    added = [label for _, label in rows_of(model.stored_documents)[30:]]
    assert [{LABELS[label] for label in row} for row in added] == [set(row) for row in labels]
    # Those of the same tokens and the same labels are there; a text without unknown words is one whatever its labels are.
    assert model.add_documents(texts, labels, tokenizer) == (0, 0, 3, 0)
    assert model.add_documents(["cat cat cat", "cat cat cat"], [["music"], ["tool"]], tokenizer) == (1, 0, 1, 0)
    assert rows_of(model.stored_documents)[33][1] == {LABELS.index("music"), LABELS.index("tool")}


def test_texts_without_a_known_word_are_left_out_and_counted(model, tokenizer, caplog):
    texts = ["qoph zayin", "cat qoph", "lamed zayin", "", "cat"]
    assert model.add_documents(texts, [["music"], ["tool"], ["empty"], [0], [0]], tokenizer) == (2, 0, 0, 3)
    assert "3 of 5 documents are left out: the model knows none of their words" in caplog.text
    assert [labels for _, labels in rows_of(model.stored_documents)[30:]] == [{LABELS.index("tool")}, {0}]
    if hasattr(model, "words"):  # a word that is in too many documents to count finds nothing either
        with torch.no_grad():
            model.words.idf[tokenizer.convert_tokens_to_ids("dog")] = 0
        assert model.add_documents(["dog", "dog horse"], [[0], [0]], tokenizer) == (1, 0, 0, 1)


def test_labels_that_nothing_can_find_are_reported(model, tokenizer, caplog):
    assert model.add_labels(["orchestra", "qoph"], tokenizer) == 2
    if hasattr(model, "words"):
        assert model.labels_never_found() == [6, 8] and model.labels_never_found(7) == [8]  # "empty" is no known word either
        assert "1 of 2 new labels cannot be found: the model knows no word of their texts" in caplog.text
    else:  # whose tokens are those of unknown words here, but an encoder reads them
        assert model.labels_never_found() == [] and not caplog.records
    caplog.clear()
    model.config.label_text_weight = model.config.label_centroid_weight = 0.0
    assert model.add_labels(["symphonies"], tokenizer) == 1
    assert model.labels_never_found() == [6, 7, 8, 9]
    assert "1 of 1 new labels cannot be found: with label_text_weight=0 labels have no effect by their texts" in caplog.text
    model.add_documents(["cat"], [["symphonies", "qoph"]], tokenizer)
    assert model.labels_never_found(7) == [7]


def test_a_string_in_place_of_a_list_and_no_tokenizer_are_refused(model, tokenizer):
    with pytest.raises(TypeError, match=r"the one string 'fishing'. Pass a list: \['fishing'\]"):
        model.add_labels("fishing", tokenizer)
    with pytest.raises(TypeError, match=r"the one string 'a cat'. Pass a list: \['a cat'\]"):
        model.add_documents("a cat", [["tool"]], tokenizer)
    with pytest.raises(ValueError, match="labels of a document are 0, but must be a list"):
        model.add_documents(["a cat"], [0], tokenizer)
    for wrong in (None, ["about boats"]):
        for add in (lambda t: model.add_labels(["new"], t), lambda t: model.add_documents(["cat"], [[0]], t)):
            with pytest.raises(TypeError, match=f"The tokenizer is of type {type(wrong).__name__}.*AutoTokenizer"):
                add(wrong)
    for wrong in ("about boats", ["boats", "tools"]):
        with pytest.raises(ValueError, match=r"descriptions .* for 1 label"):
            model.add_labels(["new"], tokenizer, wrong)
    assert model.config.num_labels == 7


def test_what_cannot_be_added_is_refused(model, tokenizer):
    with pytest.raises(ValueError, match=r"lacks 2 labels of these documents, such as 'more'.*add_labels"):
        model.add_documents(["cat", "dog"], [["more"], ["new", 0]], tokenizer)
    with pytest.raises(ValueError, match="lacks 1 labels of these documents, such as 7"):
        model.add_documents(["cat"], [[7]], tokenizer)
    with pytest.raises(ValueError, match="There are 2 texts but labels of 1"):
        model.add_documents(["cat", "dog"], [[0]], tokenizer)
    assert model.add_documents([], [], tokenizer) == (0, 0, 0, 0) and model.add_labels([], tokenizer) == 0


def test_a_model_of_an_older_version_opens_and_refuses_documents_alone(model, tokenizer, tmp_path):
    model.save_pretrained(tmp_path)
    weights = load_file(tmp_path / "model.safetensors")
    del weights["label_head.digests"]
    save_file(weights, tmp_path / "model.safetensors", {"format": "pt"})
    opened, loading = NeighborsForXMTC.from_pretrained(tmp_path, output_loading_info=True)
    assert not loading["missing_keys"]
    assert torch.equal(scores_of(opened, tokenizer, TEXTS[:3]), scores_of(model, tokenizer, TEXTS[:3]))
    with pytest.raises(ValueError, match="stored by an older version, without digests"):
        opened.add_documents(["cat"], [[0]], tokenizer)
    assert opened.add_labels(["new"], tokenizer) == 1


def test_a_union_is_that_of_a_plain_loop():
    generator = torch.Generator().manual_seed(0)

    def documents(count: int) -> StoredDocuments:
        texts = torch.randint(0, 15, (count, 1), generator=generator).tolist()
        labels = [torch.randint(0, 4, (row % 3,), generator=generator).tolist() for row in range(count)]
        return StoredDocuments(digests_of(texts), Assignments.of(labels, 4))

    for _ in range(20):
        stored, others = documents(12), documents(15)
        rows, known, relabelled, new = rows_of(stored), {}, set(), []
        for row, (digest, labels) in enumerate(rows):
            known.setdefault(digest, (row, set()))[1].update(labels)
        for row, (digest, labels) in enumerate(rows_of(others)):
            if digest not in known:
                known[digest] = len(rows), set()
                rows.append((digest, set()))
                new.append(row)
            place, has = known[digest]
            relabelled |= {place} if labels - has and place < 12 else set()
            rows[place][1].update(labels - has)
            has |= labels
        union, added, counts = stored.union(others, 4)
        assert rows_of(union) == rows and added.tolist() == new
        assert counts == (len(new), len(relabelled), 15 - len(new) - len(relabelled), 0)


def rows_of(documents: StoredDocuments) -> list[tuple[int, set[int]]]:
    parts = documents.assignments.label_ids.tensor_split(documents.assignments.offsets[1:-1].long())
    return [(digest, set(part.tolist())) for digest, part in zip(documents.digests.tolist(), parts, strict=True)]
