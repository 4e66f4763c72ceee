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
    assert len(set(TEXTS)) == distinct == 40 and counts == (10, 0, 0)
    extended, model = model, NeighborsForXMTC(model.config)
    model.load_state_dict(
        {**model.state_dict(), **{k: v for k, v in extended.state_dict().items() if "label_head" not in k}}
    )
    store(model, tokenizer, 40)
    assert_same_arrays(extended, model)


def test_documents_that_are_there_are_not_added_again(model, tokenizer):
    before = {name: array.clone() for name, array in model.state_dict().items()}
    assert model.add_documents(TEXTS[:30], NAMES[:30], tokenizer) == (0, 0, 30)
    assert all(torch.equal(array, before[name]) for name, array in model.state_dict().items())
    assert model.add_documents(TEXTS[29:32] * 2, NAMES[29:32] * 2, tokenizer) == (2, 0, 4)
    assert model.add_documents(TEXTS[29:32], NAMES[29:32], tokenizer) == (0, 0, 3)
    assert model.config.num_documents == 32


def test_a_text_that_is_there_gets_the_labels_that_it_lacks(model, tokenizer):
    assert model.add_documents([TEXTS[3], TEXTS[3], TEXTS[4]], [["empty"], [6, *NAMES[3]], NAMES[4]], tokenizer) == (0, 1, 2)
    assert model.config.num_documents == 30
    start, stop = model.label_head.label_offsets[3:5].tolist()
    assert {LABELS[i] for i in model.label_head.label_ids[start:stop].tolist()} == {*NAMES[3], "empty"}
    assert scores_of(model, tokenizer, [TEXTS[3]])[0, 6] > 0.2


def test_new_documents_help_at_once_and_other_scores_stay(model, tokenizer):
    texts = ["violin trumpet", *TEXTS[:8]]
    before = scores_of(model, tokenizer, texts)
    nearest = model.neighbors_of(**tokenizer(texts, padding=True, return_tensors="pt", return_token_type_ids=False)).rows
    assert model.add_documents(["violin trumpet"], [["empty"]], tokenizer) == (1, 0, 0)
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
    assert opened.add_documents([text, "the"], [[8], [0]], AutoTokenizer.from_pretrained(tmp_path)) == (1, 0, 1)


def test_what_cannot_be_added_is_refused(model, tokenizer):
    with pytest.raises(ValueError, match=r"lacks 2 labels of these documents, such as 'more'.*add_labels"):
        model.add_documents(["cat", "dog"], [["more"], ["new", 0]], tokenizer)
    with pytest.raises(ValueError, match="lacks 1 labels of these documents, such as 7"):
        model.add_documents(["cat"], [[7]], tokenizer)
    with pytest.raises(ValueError, match="There are 2 texts but labels of 1"):
        model.add_documents(["cat", "dog"], [[0]], tokenizer)
    assert model.add_documents([], [], tokenizer) == (0, 0, 0) and model.add_labels([], tokenizer) == 0


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
        assert counts == (len(new), len(relabelled), 15 - len(new) - len(relabelled))


def rows_of(documents: StoredDocuments) -> list[tuple[int, set[int]]]:
    parts = documents.assignments.label_ids.tensor_split(documents.assignments.offsets[1:-1].long())
    return [(digest, set(part.tolist())) for digest, part in zip(documents.digests.tolist(), parts, strict=True)]
