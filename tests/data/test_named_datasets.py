import warnings

import pytest

from hf_xmtc.data import label_info_of
from hf_xmtc.data.label_info import LabelInfo
from hf_xmtc.data.named_datasets import NAMED_DATASETS, find_benchmark
from hf_xmtc.models.label_names import LabelNames

ROWS = [(f"text {i}", ["a"]) for i in range(20)]


def info_of(num_labels: int, **num_documents: int) -> LabelInfo:
    names = LabelNames.of([str(i) for i in range(num_labels)])
    return LabelInfo(names, None, [], "eurlex-4k", False, num_documents, {})


def test_every_benchmark_has_sizes_files_and_constants():
    for name, dataset in NAMED_DATASETS.items():
        assert name == dataset.name == name.lower() and dataset.files and dataset.origin
        for sizes in dataset.sizes:
            assert sizes.num_labels < 3_000_000 and 1 < sizes.labels_per_document < 40
    assert NAMED_DATASETS["amazon-670k"].propensity_constants == (0.6, 2.6)
    assert NAMED_DATASETS["wikilshtc-325k"].propensity_constants == (0.5, 0.4)
    assert NAMED_DATASETS["eurlex-4k"].propensity_constants == (0.55, 1.5)


@pytest.mark.parametrize(
    "info",
    [
        info_of(3_956, train=15_449, test=3_865),
        info_of(3_993, train=15_000, validation=539, test=3_809),
        info_of(3_956, train=15_449),
    ],
    ids=["AttentionXML's", "XC's, with validation", "without test"],
)
def test_each_version_of_a_benchmark_passes(info):
    assert NAMED_DATASETS["eurlex-4k"].difference(info) is None


def test_what_differs_from_the_nearest_version_is_said():
    said = NAMED_DATASETS["eurlex-4k"].difference(info_of(3_993, train=15_539, test=3_865))
    assert "has 3,865 test documents instead of 3,809 (XC)" in said


def test_a_folder_with_the_name_of_a_benchmark_is_compared_with_it(write_folder, load):
    with pytest.warns(
        UserWarning, match="taken for the benchmark aapd, but has 20 training .* instead of 54,840, 1 labels instead of 54"
    ):
        assert label_info_of(load(write_folder("AAPD", train=ROWS))).named == "aapd"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert label_info_of(load(write_folder("AAPD", train=ROWS), named="none")).named is None
        assert label_info_of(load(write_folder("mine", train=ROWS))).named is None


def test_an_unknown_benchmark_is_refused():
    with pytest.raises(ValueError, match="named='eurlex' is not one of the known benchmarks: eurlex-4k, "):
        find_benchmark("eurlex", "x")
