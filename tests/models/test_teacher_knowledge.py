from types import SimpleNamespace

import pytest
import torch

from hf_xmtc.models.stored_documents import Assignments
from hf_xmtc.models.teacher_knowledge import TeacherKnowledge
from hf_xmtc.models.text_index import DocumentVectors, VectorIndex, nearest_texts, ranked_texts

NO_PARENTS = [[], [], [], []]


def of_rows(rows: list[list[int]]) -> Assignments:
    return Assignments.of(rows, 1_000)


def knowledge(labels: list[list[int]], parents: list[list[int]] = NO_PARENTS, vectors=None, **settings) -> TeacherKnowledge:
    """Training texts with these labels and parents of labels; words 0 and 1 have the vectors (1, 0) and (0, 1)."""
    sizes = {
        "num_documents": 0,
        "num_values": 0,
        "num_assignments": 0,
        "num_parents": 0,
        "num_nodes": len(parents),
        "corpus_digest": None,
    }
    config = SimpleNamespace(
        **{
            "retrieval": "words",
            "vocab_size": 3,
            "word_size": 2,
            "pad_token_id": 2,
            "num_labels": len(parents),
            "num_neighbors": 2,
            "max_teacher_labels": 64,
            **sizes,
            **settings,
        }
    )
    teacher = TeacherKnowledge(config)
    teacher.take_word_vectors(torch.tensor([[1.0, 0.0], [0.0, 1.0], [9.0, 9.0]]), unread_ids=[2])
    vectors = torch.eye(2)[[0] * len(labels)] if vectors is None else torch.tensor(vectors)
    teacher.store(DocumentVectors(vectors), of_rows(labels), of_rows(parents), torch.arange(len(labels)))
    return teacher


def teacher_of(teacher: TeacherKnowledge, rows: list[int], similarities: list[float], **options) -> dict[int, tuple]:
    """Weight of each node and whether it is only a parent, for one text, in order."""
    found = teacher.teacher_from(torch.tensor([rows]), torch.tensor([similarities]), **options)
    columns = zip(*(part[0].tolist() for part in found), strict=True)
    return {node: (round(weight, 4), is_parent) for node, weight, is_parent in columns if node >= 0}


# ---- neighbours --------------------------------------------------------------------------------------------------------------

ROWS = torch.tensor([[1.0, 0.0], [0.8, 0.6], [0.0, 1.0]])


def index_of(rows: torch.Tensor) -> VectorIndex:
    index = VectorIndex(rows.shape[1], 0)
    index.store(DocumentVectors(rows))
    return index


def test_nearest_text_is_another_one_where_the_own_row_is_left_out():
    index, own = index_of(ROWS), torch.arange(3)
    found = nearest_texts(index, DocumentVectors(ROWS), 1, text_groups=own, own_groups=own)
    assert found.rows.flatten().tolist() == [1, 0, 1]
    assert found.similarities.flatten().tolist() == pytest.approx([0.8, 0.8, 0.6])
    assert nearest_texts(index, DocumentVectors(ROWS), 1).rows.flatten().tolist() == [0, 1, 2]


def test_blocks_of_texts_give_the_same_neighbours_as_all_at_once():
    rows = torch.nn.functional.normalize(torch.randn(200, 5, generator=torch.Generator().manual_seed(0)), dim=1)
    rows[20:40] = rows[:20]  # equal similarities go to the lower row
    index, groups = index_of(rows), torch.arange(200)
    found = nearest_texts(index, DocumentVectors(rows), 7, groups, groups, block_size=30)
    expected = (rows @ rows.t()).fill_diagonal_(-1).sort(dim=1, descending=True, stable=True)
    assert torch.allclose(found.similarities, expected.values[:, :7], atol=1e-6)
    assert torch.equal(found.rows, nearest_texts(index, DocumentVectors(rows), 7, groups, groups).rows)
    assert bool((found.rows != groups[:, None]).all()) and bool((found.similarities.diff(dim=1) <= 0).all())


def test_texts_that_share_nothing_are_ranked_by_row_in_blocks_too():
    rows = torch.tensor([[0.0, 1.0], [-1.0, 0.0], [-0.6, 0.8], [1.0, 0.0], [0.6, -0.8]])
    for block_size in (5, 2):
        ranked = ranked_texts(index_of(rows), DocumentVectors(rows[[3, 4]]), 4, block_size=block_size)
        assert ranked.rows.tolist() == [[3, 4, 0, 1], [4, 3, 0, 1]]
        assert ranked.similarities[:, 2:].tolist() == [[0, 0], [0, 0]]


def test_text_without_known_words_has_no_neighbour_and_no_teacher():
    teacher = knowledge([[0], [1]])
    vectors = teacher.vectors_of(torch.tensor([[2, 2], [0, 2]]))
    assert vectors.values.tolist() == [[0.0, 0.0], [1.0, 0.0]]
    assert teacher.neighbors(vectors).rows.tolist() == [[-100, -100], [0, 1]]
    assert teacher.teacher_of(vectors).node_ids[0].tolist() == [-100, -100]


# ---- the teacher -------------------------------------------------------------------------------------------------------------


def test_teacher_is_the_labels_of_the_neighbours_and_their_parents():
    # The specification's example: labels 1 and 2 have the parent 0; the neighbours have the labels 1 and 3.
    teacher = knowledge([[1], [3]], parents=[[], [0], [0], []])
    assert teacher_of(teacher, [0, 1], [0.8, 0.6]) == {0: (0.8, True), 1: (0.8, False), 3: (0.6, False)}


def test_weight_counts_each_neighbour_once_and_a_label_that_one_has_is_no_mere_parent():
    teacher = knowledge([[1, 2], [0], [1]], parents=[[], [0], [0], []], num_neighbors=3)
    expected = {0: (1.2, False), 1: (0.75, False), 2: (0.5, False)}
    assert teacher_of(teacher, [0, 1, 2], [0.5, 0.45, 0.25]) == expected
    assert teacher_of(teacher, [2, 0, 1], [0.25, 0.5, 0.45]) == expected  # in any order
    assert list(teacher_of(teacher, [0, 1, 2], [0.5, 0.45, 0.25], with_parents=False)) == [1, 2, 0]


def test_parents_are_those_one_level_up_and_may_be_no_labels():
    teacher = knowledge([[2]], parents=[[4], [0], [1, 5], []])
    assert teacher.config.num_nodes == 6
    assert teacher_of(teacher, [0, -100], [0.5, 0.0]) == {1: (0.5, True), 2: (0.5, False), 5: (0.5, True)}


def test_heaviest_labels_stay_and_equal_ones_by_id():
    teacher = knowledge([[0, 2], [1, 2], [3]], num_neighbors=3, max_teacher_labels=3)
    assert list(teacher_of(teacher, [0, 1, 2], [0.4, 0.4, 0.4])) == [2, 0, 1]


def test_number_of_neighbours_is_chosen_when_the_model_runs():
    teacher = knowledge([[0], [1], [2]], num_neighbors=1)
    assert list(teacher_of(teacher, [0, 1, 2], [0.9, 0.8, 0.7])) == [0]
    teacher.config.num_neighbors = 3
    assert list(teacher_of(teacher, [0, 1, 2], [0.9, 0.8, 0.7])) == [0, 1, 2]


def test_flat_labels_have_a_teacher():
    assert list(teacher_of(knowledge([[2], []]), [0, 1], [0.5, 0.4])) == [2]


# ---- what is stored ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name", ["text_hashes", "node_offsets", "node_ids", "is_own", "parent_ids", "parent_offsets", "node_names"]
)
def test_knowledge_of_other_texts_labels_or_parents_is_refused(name):
    teacher = knowledge([[1], [3]], parents=[[], [0], [1], []])
    teacher.check()
    array = getattr(teacher, name)
    array[1] = 1 - array[1].int()
    with pytest.raises(ValueError, match="corpus_digest"):
        teacher.check()


def test_knowledge_with_a_digest_of_an_earlier_version_opens():
    teacher = knowledge([[1], [3]], parents=[[], [0], [1], []])
    teacher.config.corpus_digest = teacher.digest(of_first_version=True)
    teacher.check()
    teacher.node_ids[0] = 2
    with pytest.raises(ValueError, match="corpus_digest"):
        teacher.check()


def test_labels_that_point_outside_are_refused():
    teacher = knowledge([[1], [3]])
    teacher.node_ids[0] = 9
    teacher.config.corpus_digest = teacher.digest()
    with pytest.raises(ValueError, match="outside of 4 nodes"):
        teacher.check()


def test_labels_that_move_take_their_documents_along_and_lost_ones_still_teach():
    teacher = knowledge([[1], [3]], parents=[[], [4], [0], []])
    nodes = teacher.resize_labels(torch.tensor([3, -1, 0]))
    teacher.config.num_labels = 3
    assert nodes.tolist() == [
        3,
        -1,
        0,
        4,
        1,
        2,
    ]  # the labels, the parent that was none, and labels 1 and 2, which are none any more
    assert teacher_of(teacher, [0, 1], [0.8, 0.6]) == {3: (0.8, True), 4: (0.8, False), 0: (0.6, False)}
    teacher.check()
