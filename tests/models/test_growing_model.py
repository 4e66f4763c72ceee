"""TReaderXML gets further documents and labels without training; `NeighborsForXMTC` does in test_stored_documents.py."""

import pytest
import torch
from datasets import Dataset, DatasetDict
from transformers import AutoModel, BertConfig

from hf_xmtc import LabelNames, TReaderXMLConfig, TReaderXMLForXMTC, train_word_tokenizer
from hf_xmtc.models.stored_documents import Assignments, digests_of
from hf_xmtc.retrieval.neighbor_columns import add_neighbors
from hf_xmtc.training.teacher import store_teacher, vectors_of_texts
from small_corpus import WORDS, make_documents

LABELS = LabelNames([*WORDS, "empty"], parents=[["life"], [], ["life"], ["art"], [], ["thing", "place"], []])
TEXTS, NAMES = (list(column) for column in zip(*make_documents(40, 0), strict=True))
IDS = [[LABELS.ids[label] for label in row] for row in NAMES]
RETRIEVALS = ["tf_idf", "words", "encoder"]
SIZES = {"bottleneck_size": 12, "num_neighbors": 3, "max_teacher_labels": 20}


@pytest.fixture(scope="module")
def tokenizer():
    return train_word_tokenizer([*TEXTS, *LABELS.labels, "violin trumpet all life art thing zoo", "orchestra plays"])


def documents_of(tokenizer, count: int) -> Dataset:
    return Dataset.from_dict({"input_ids": tokenizer(TEXTS[:count])["input_ids"], "labels": IDS[:count]})


@pytest.fixture
def build(tokenizer):
    def build(retrieval: str = "tf_idf", **settings) -> TReaderXMLForXMTC:
        """Holds the first 30 documents."""
        torch.manual_seed(0)
        chosen = {"label_names": LABELS, "retrieval": retrieval, **SIZES, **settings}
        if retrieval == "encoder":
            sizes = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
            backbone = BertConfig(vocab_size=len(tokenizer), **sizes)
            config = TReaderXMLConfig(backbone_config=backbone, **chosen)
        else:
            config = TReaderXMLConfig.for_tokenizer(tokenizer, embedding_size=16, embedding_initializer_range=1.0, **chosen)
        model = TReaderXMLForXMTC(config).eval()
        label_texts = tokenizer([LABELS.name_of(label) for label in range(len(LABELS))])["input_ids"]
        unread = tokenizer.all_special_ids
        store_teacher(
            model,
            documents_of(tokenizer, 30),
            LABELS,
            label_texts,
            lambda texts: tokenizer(texts, add_special_tokens=False)["input_ids"],
            unread,
        )
        return model

    return build


@torch.no_grad()
def logits_of(model: TReaderXMLForXMTC, tokenizer, texts: list[str]) -> torch.Tensor:
    return model(**tokenizer(texts, padding=True, return_tensors="pt", return_token_type_ids=False)).logits


def teacher_of(model: TReaderXMLForXMTC, tokenizer, text: str) -> dict[int, bool]:
    """The nodes of a text's teacher, and whether they are there as parents alone."""
    teacher = model.teacher_of(torch.tensor([tokenizer(text)["input_ids"]]))
    return dict(zip(teacher.node_ids[0].tolist(), teacher.is_parent[0].tolist(), strict=True))


def arrays_of(model: TReaderXMLForXMTC) -> dict[str, torch.Tensor]:
    return {name: array.clone() for name, array in model.state_dict().items()}


def assert_same_arrays(model: TReaderXMLForXMTC, expected: dict[str, torch.Tensor]) -> None:
    assert model.state_dict().keys() == expected.keys()
    for name, array in model.state_dict().items():
        torch.testing.assert_close(array, expected[name], msg=lambda text, name=name: f"{name}: {text}")


@pytest.mark.parametrize("retrieval", RETRIEVALS)
def test_an_extended_model_is_the_one_that_holds_the_whole(build, tokenizer, retrieval):
    model, whole = build(retrieval), build(retrieval)
    documents = documents_of(tokenizer, 40)["input_ids"][:]
    assert model.add_documents(TEXTS[30:], NAMES[30:], tokenizer) == (10, 0, 0, 0)
    vectors = vectors_of_texts(whole.teacher, documents)
    names = [*LABELS.labels, "art", "life", "thing"]
    whole.teacher.store(vectors, Assignments.of(IDS, 7), whole.teacher.parents, digests_of(documents), names)
    assert_same_arrays(model, whole.state_dict())
    assert model.config.to_dict() == whole.config.to_dict() and model.config.num_documents == 40
    assert not any(parameter.requires_grad for parameter in model.teacher.parameters())


@pytest.mark.parametrize("retrieval", RETRIEVALS)
def test_documents_that_are_there_are_not_added_again(build, tokenizer, retrieval):
    model = build(retrieval)
    before = arrays_of(model)
    assert model.add_documents(TEXTS[:30], NAMES[:30], tokenizer) == (0, 0, 30, 0)
    assert_same_arrays(model, before)
    assert model.add_documents(TEXTS[29:32] * 2, NAMES[29:32] * 2, tokenizer) == (2, 0, 4, 0)
    assert model.config.num_documents == 32
    # One that is there gets the label that it lacks, and the label's parents.
    assert model.add_documents([TEXTS[0]], [["tool"]], tokenizer) == (0, 1, 0, 0)
    nodes = teacher_of(model, tokenizer, TEXTS[0])
    assert nodes[LABELS.ids["tool"]] is False and {LABELS.ids["place"], 9} <= set(nodes)


@pytest.mark.parametrize("retrieval", RETRIEVALS)
def test_texts_of_unknown_words_are_no_document_that_is_there(build, tokenizer, retrieval):
    model, texts = build(retrieval), ["qoph zayin", "lamed", "cat qoph", "cat lamed"]
    labels = [["tool"], ["music"], ["tool"], ["music"]]
    assert model.add_documents(texts, labels, tokenizer) == (2, 0, 0, 2)
    added = [model.stored_documents.assignments.label_ids[i].item() for i in (-2, -1)]
    assert added == [LABELS.ids["tool"], LABELS.ids["music"]] and model.config.num_documents == 32
    assert model.add_documents(texts, labels, tokenizer) == (0, 0, 2, 2)


def test_new_documents_teach_at_once_and_other_scores_stay(build, tokenizer):
    model, texts = build(), ["violin trumpet", *TEXTS[:8]]
    assert teacher_of(model, tokenizer, texts[0]) == {-100: False}
    before, batch = logits_of(model, tokenizer, texts), tokenizer(texts, padding=True, return_tensors="pt")["input_ids"]
    nearest = model.teacher.neighbors(model.teacher.vectors_of(batch)).rows
    assert model.add_documents(["trumpet"], [["empty", "music"]], tokenizer) == (1, 0, 0, 0)
    assert teacher_of(model, tokenizer, texts[0]) == {6: False, 3: False, 7: True}  # the parent of music is art
    voters = model.teacher.neighbors(model.teacher.vectors_of(batch)).rows
    same = (nearest == voters).all(dim=1)
    assert same[1:].all() and not same[0]
    after = logits_of(model, tokenizer, texts)
    torch.testing.assert_close(after[1:], before[1:], rtol=0, atol=1e-6)
    assert (after[0] - before[0]).abs().max() > 1e-3


@pytest.mark.parametrize("cornet_num_blocks", [0, 1])
def test_a_new_label_teaches_at_once_and_is_silent_until_it_is_trained(build, tokenizer, tmp_path, cornet_num_blocks):
    model, texts = build(cornet_num_blocks=cornet_num_blocks), [*TEXTS[:5], "violin"]
    before = logits_of(model, tokenizer, texts)
    # The parent "all" is new, and stands behind those that are there.
    new = LabelNames(["place", "n1", "12"], [None, "orchestra plays", None], [[], ["all", "art"], []])
    assert model.add_labels(new, tokenizer, ["other", "music", None]) == 2
    after = logits_of(model, tokenizer, texts)
    torch.testing.assert_close(after[:, :7], before, rtol=0, atol=1e-6)
    assert after[:, 7:].max() < after[:, :7].min() and after[:, 7:].sigmoid().max() < 1e-3
    described = model.teacher_embedding.descriptions
    assert described[7, :3].tolist() == tokenizer.convert_tokens_to_ids(["orchestra", "plays", "music"])
    assert (described[8] == -100).all() and described[12, 0] == tokenizer.convert_tokens_to_ids("all")
    assert model.config.num_nodes == len(described) == 13

    assert model.add_documents(["violin trumpet"], [["n1"]], tokenizer).new == 1
    assert teacher_of(model, tokenizer, "violin") == {7: False, 9: True, 12: True}
    assert (logits_of(model, tokenizer, texts)[5] - after[5]).abs().max() > 1e-3
    assert model.add_labels(["n1", "12"], tokenizer) == 0

    model.save_pretrained(tmp_path)
    opened = AutoModel.from_pretrained(tmp_path, trust_remote_code=True)
    assert_same_arrays(opened, model.state_dict())
    assert opened.add_documents(["violin trumpet", "trumpet"], [["n1"], ["12"]], tokenizer) == (1, 0, 1, 0)


def test_parents_that_the_data_do_not_name_stay_and_new_labels_have_none(build, tokenizer):
    model = build(parents="containment")
    before, parents = logits_of(model, tokenizer, TEXTS[:5]), model.teacher.parents
    assert model.add_labels(LabelNames(["n1"], parents=[["art"]]), tokenizer) == 1
    assert model.teacher.parents.label_ids.tolist() == parents.label_ids.tolist() and model.config.num_nodes == 8
    torch.testing.assert_close(logits_of(model, tokenizer, TEXTS[:5])[:, :7], before, rtol=0, atol=1e-6)


def test_teachers_of_splits_with_neighbours_stay_and_new_neighbours_are_found(build, tokenizer):
    model = build()
    documents = documents_of(tokenizer, 40)

    def with_neighbors(count: int) -> Dataset:
        splits = DatasetDict(train=documents.select(range(count)), test=documents.select(range(35, 40)))
        return add_neighbors(splits, model.teacher, lambda texts: vectors_of_texts(model.teacher, texts))

    old = with_neighbors(30)
    columns = [torch.nn.utils.rnn.pad_sequence(list(map(torch.tensor, old["train"][name][:])), True, -100) for name in NEW]
    before = model.teacher.teacher_from(*columns)
    model.add_documents(TEXTS[30:36], NAMES[30:36], tokenizer)
    for part, expected in zip(model.teacher.teacher_from(*columns), before, strict=True):
        assert torch.equal(part, expected)

    found = with_neighbors(36)
    assert all(row not in near for row, near in enumerate(found["train"]["neighbor_ids"][:]))
    assert found["test"]["neighbor_ids"][0][0] == 35  # the same text
    assert any(30 <= near < 36 for row in found["train"]["neighbor_ids"][:30] for near in row)


NEW = ("neighbor_ids", "neighbor_similarities")


def test_labels_that_move_keep_their_parents(build, tokenizer):
    model = build()
    model.resize_labels(["tool", "place", "music"])
    assert [part.tolist() for part in model.teacher.parents] == [[0, 2, 2, 3], [1, 5, 3]]
    model.teacher.check()


def named_teachers(model: TReaderXMLForXMTC, tokenizer, texts: list[str]) -> list[dict[str, tuple]]:
    """Of each text's teacher the nodes by their descriptions, with weight and whether they are there as parents alone."""
    descriptions = [tokenizer.decode(row[row >= 0]) for row in model.teacher_embedding.descriptions]
    teachers = []
    for text in texts:
        columns = model.teacher_of(torch.tensor([tokenizer(text)["input_ids"]]))
        rows = zip(*(column[0].tolist() for column in columns), strict=True)
        teachers.append({descriptions[node]: (round(weight, 4), is_parent) for node, weight, is_parent in rows})
    return teachers


@pytest.mark.parametrize(
    "steps",
    [
        ("resize", "add"),
        ("resize", "open", "add"),
        ("resize", "document", "open", "add"),
        ("resize", "add", "add again", "document"),
        ("add", "resize"),
        ("add", "resize", "open", "add again", "open"),
    ],
)
def test_what_teachers_say_stays_when_labels_go_and_others_come(build, tokenizer, tmp_path, steps):
    model, texts = build(), TEXTS[:12]
    expected = named_teachers(model, tokenizer, texts)
    assert {"art", "thing", "life"} <= {name for teacher in expected for name in teacher}
    more = {"add": LabelNames(["violin"], parents=[["zoo", "all", "art", "place"]])}
    more["add again"] = LabelNames(["trumpet", "plays"], parents=[["tool", "all", "plays"], []])
    for step in steps:
        if step == "resize":
            model.resize_labels([label for label in model.config.label_names.labels if label not in ("music", "tool")])
        elif step == "open":
            model.save_pretrained(tmp_path)
            model = TReaderXMLForXMTC.from_pretrained(tmp_path).eval()
        elif step == "document":
            assert model.add_documents(["orchestra"], [["place"]], tokenizer).new == 1
        else:
            assert model.add_labels(more[step], tokenizer) == len(more[step])
        assert named_teachers(model, tokenizer, texts) == expected
        assert model.config.num_nodes == len(model.teacher_embedding.descriptions)
        model.teacher.check()
    for name, parents in (("violin", {"zoo", "all", "art", "place"}), ("trumpet", {"tool", "all", "plays"})):
        if name in model.config.label_names.ids:
            label = model.config.label_names.ids[name]
            nodes = model.teacher.parent_ids[model.teacher.parents.rows == label]
            rows = model.teacher_embedding.descriptions[nodes]
            assert {tokenizer.decode(row[row >= 0]) for row in rows} == parents


def test_a_label_that_was_a_node_already_is_this_node(build, tokenizer):
    model, (text,) = build(), [text for text, names in zip(TEXTS[:30], NAMES, strict=False) if names == ["music"]][:1]
    model.resize_labels([label for label in LABELS.labels if label != "music"])
    before = named_teachers(model, tokenizer, TEXTS[:12])
    assert model.add_labels(LabelNames(["art", "music"], parents=[[], ["art"]]), tokenizer) == 2
    teacher = teacher_of(model, tokenizer, text)
    assert teacher[6] is True and teacher[7] is False  # art, which music's documents have as a parent, and music
    assert named_teachers(model, tokenizer, TEXTS[:12]) == before and model.config.num_nodes == 10
    assert (model.document_labels.label_ids == 7).sum() == sum("music" in names for names in NAMES[:30])


def test_documents_keep_their_labels_when_others_are_added_after_labels_went(build, tokenizer):
    model = build()
    model.resize_labels(["tool", "place"])
    before = model.stored_documents.assignments
    assert model.add_documents([TEXTS[0], "violin"], [["tool"], ["place"]], tokenizer).new == 1
    after = model.stored_documents.assignments
    pairs = [{*zip(part.rows.tolist(), part.label_ids.tolist(), strict=True)} for part in (before, after)]
    assert pairs[1] - pairs[0] <= {(0, 0), (30, 1)} and not pairs[0] - pairs[1]
    assert model.document_labels.label_ids.max() == 1


def test_a_model_without_teacher_is_refused(tokenizer):
    model = TReaderXMLForXMTC(TReaderXMLConfig.for_tokenizer(tokenizer, num_labels=2, use_teacher=False, **SIZES))
    for add in (lambda: model.add_documents(["cat"], [[0]], tokenizer), lambda: model.add_labels(["new"], tokenizer)):
        with pytest.raises(ValueError, match="use_teacher=False and holds no training texts"):
            add()


def test_damaged_parents_are_refused(build):
    model = build()
    model.teacher.parent_ids[0] = 11
    model.config.corpus_digest = model.teacher.digest()
    with pytest.raises(ValueError, match="The parents are damaged: they point outside of 10 nodes"):
        model.teacher.check()


@pytest.mark.parametrize(("labels", "named"), [(["violin"], "'violin'"), ([[1.7]], r"\[1\.7\]"), ([[True]], r"\[True\]")])
def test_labels_that_are_no_list_of_labels_or_ids_are_refused(build, tokenizer, labels, named):
    with pytest.raises(ValueError, match=f"labels of a document are {named}, but must be a list"):
        build().add_documents(["violin trumpet"], labels, tokenizer)
