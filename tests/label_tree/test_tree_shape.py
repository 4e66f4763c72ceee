import pytest

from hf_xmtc.label_tree import TreeShape


@pytest.mark.parametrize(
    ("num_labels", "shape"),
    [
        # EUR-Lex, AmazonCat-13K and Wiki10-31K: 256 clusters of 15 or 16 labels, 512 of 26 or 27, 512 of 60 or 61.
        (3_956, TreeShape(16, (8,))),
        (13_330, TreeShape(27, (9,))),
        (30_938, TreeShape(61, (9,))),
        # One label, or a few, make one cluster.
        (1, TreeShape(1, (0,))),
        (7, TreeShape(7, (0,))),
        # 512 + 10 · 32 + 10 · 41 scores; with one level of clusters the least is over 5,000.
        (670_091, TreeShape(41, (9, 14))),
    ],
)
def test_the_usual_shape_needs_the_fewest_scores(num_labels, shape):
    assert TreeShape.for_labels(num_labels) == shape


def test_a_wider_beam_makes_smaller_clusters():
    assert TreeShape.for_labels(3_956, beam_width=40).max_leaf < 16


def test_the_usual_shape_fits_any_number_of_labels():
    for num_labels in (*range(1, 300), 50_000, 50_001, 1_000_003):
        TreeShape.for_labels(num_labels).check(num_labels)


def test_algorithm_1_takes_every_cth_ancestor():
    assert TreeShape.of_algorithm_1(16, max_leaf=2, branching_depth=2, height=2) == TreeShape(2, (1, 3))
    # Amazon-670K of AttentionXML: levels 2^11, 2^14, 2^17.
    assert TreeShape.of_algorithm_1(670_091, max_leaf=8, branching_depth=3, height=3) == TreeShape(8, (11, 14, 17))
    # Wiki-500K: 2^13 clusters.
    assert TreeShape.of_algorithm_1(501_008, max_leaf=64, branching_depth=3, height=1) == TreeShape(64, (13,))


@pytest.mark.parametrize("depths", [(), (0, 3), (3, 1), (3, 3), (2,), (1, 4), (-1, 3)])
def test_depths_that_do_not_fit_are_refused(depths):
    with pytest.raises(ValueError, match=r"do not fit 16 labels in clusters of at most 2, which are at depth 3"):
        TreeShape(2, depths).check(16)


def test_an_algorithm_that_reaches_above_the_root_is_refused():
    with pytest.raises(ValueError, match=r"Levels at the depths \[-1, 1, 3\] do not fit 16 labels"):
        TreeShape.of_algorithm_1(16, max_leaf=2, branching_depth=2, height=3)
    with pytest.raises(ValueError, match="height=0 must be at least 1"):
        TreeShape.of_algorithm_1(16, 2, 2, 0)
