"""The benchmark of the label head runs at tiny sizes, and its arithmetic is right."""

import json
from dataclasses import replace

import pytest

from label_head_cases import Case, Effort, measure, needed_gib
from label_head_comparison import bound_ms, checks, compare, needed_products
from label_head_plan import FULL, QUICK, groups_of
from label_head_speed import main, run_benchmark

SMALL = replace(
    QUICK, data_sets={150: "small"}, widths=(8,), batch_sizes=(3,), cornets=((300, 2, 10, ("fused", "sgd", "adam")),)
)


@pytest.fixture(scope="module")
def content(tmp_path_factory):
    output = tmp_path_factory.mktemp("benchmark") / "small"
    assert run_benchmark(SMALL, output, repeats=1, threads=1) == []
    return json.loads(output.with_suffix(".json").read_text(encoding="utf-8")), output


def test_every_method_is_measured_with_the_same_loss_and_has_its_ratios(content):
    step, cornet, topk, named = content[0]["comparisons"]
    assert set(step["methods"]) == {"usual", "fused", "sgd", "rowwise", "adam", "stored"}
    for group in (step, cornet):
        assert group["losses_differ_by"] < 1e-5
        for entry in group["methods"].values():
            assert entry["ms"] > 0 and entry["extra_mib"] >= 0
            assert entry["faster_than_fused"] == pytest.approx(group["methods"]["fused"]["ms"] / entry["ms"])
    assert step["methods"]["sgd"]["times_bound"] == pytest.approx(
        step["methods"]["sgd"]["ms"] / step["methods"]["sgd"]["bound_ms"]
    )
    assert topk["rows_that_differ"] == 0 and topk["rows_compared"] == 33 and topk["ours_one_ms"] > 0
    assert named["config_bytes"] < 1_000 and named["stock_answers_alike"]


def test_the_page_shows_targets_steps_memory_and_top_k(content):
    page = content[1].with_suffix(".md").read_text(encoding="utf-8")
    for heading in ("## Targets", "## Training step", "## Memory beyond", "## Top-10", "## Head with CorNet"):
        assert heading in page
    assert len(content[0]["checks"]) > 10 and all(check["measured"] for check in content[0]["checks"])


def test_what_has_been_measured_is_not_measured_again(content, caplog):
    before = content[1].with_suffix(".json").read_text(encoding="utf-8")
    run_benchmark(SMALL, content[1], repeats=1, threads=1)
    assert json.loads(before)["cases"] == json.loads(content[1].with_suffix(".json").read_text(encoding="utf-8"))["cases"]


def test_measuring_one_case_anew_leaves_the_others_with_the_rates_of_their_machine(content, tmp_path):
    for ending in (".json", ".md"):
        (tmp_path / "copy").with_suffix(ending).write_text(content[1].with_suffix(ending).read_text("utf-8"), "utf-8")
    run_benchmark(SMALL, tmp_path / "copy", patterns=["topk/*"], repeats=1, threads=1, restart=True)
    after = json.loads((tmp_path / "copy").with_suffix(".json").read_text("utf-8"))
    assert after["cases"].keys() == content[0]["cases"].keys() and "bound_ms" in after["comparisons"][0]["methods"]["sgd"]
    assert after["cases"]["machine/150/8/3"] == content[0]["cases"]["machine/150/8/3"]


def test_results_of_other_settings_are_refused(content):
    with pytest.raises(ValueError, match="holds results with settings .*'threads': 1.* but this run has .*'threads': 2"):
        run_benchmark(SMALL, content[1], repeats=1, threads=2)


def test_a_case_that_does_not_fit_is_reported_and_not_run(tmp_path):
    output = tmp_path / "full"
    assert run_benchmark(SMALL, output, patterns=["step/150/8/3/usual"], repeats=1, threads=1, memory_gib=0.1) == []
    content = json.loads(output.with_suffix(".json").read_text(encoding="utf-8"))
    assert "does not fit (needs about" in output.with_suffix(".md").read_text(encoding="utf-8")
    assert content["cases"]["step/150/8/3/usual"]["rounds"] == []
    assert content["cases"]["step/150/8/3/usual"]["does_not_fit"]["free_gib"] == 0.1


def test_an_unknown_case_is_refused(tmp_path):
    with pytest.raises(SystemExit, match="No case has a name like nothing/"):
        main(["--quick", "--cases", "nothing/*", "--output", str(tmp_path / "none")])


def test_the_full_plan_has_every_size_and_method():
    names = {case.name for group in groups_of(FULL) for case in group.cases}
    for labels in (3_956, 13_330, 131_073, 501_008, 1_305_265):
        for width in (512, 768):
            assert f"topk/{labels}/{width}" in names
            for batch_size in (32, 256):
                for method in ("usual", "fused", "sgd", "rowwise", "adam", "stored"):
                    assert f"step/{labels}/{width}/{batch_size}/{method}" in names
    assert "cornet/131073/512/32/2x1000/adam" in names and "cornet/1305265/512/32/2x100/sgd" in names


def test_usual_adam_with_the_largest_label_set_needs_more_memory_than_ours():
    usual, ours = (Case("step", 1_305_265, 768, 256, method) for method in ("usual", "sgd"))
    assert needed_gib(usual) > 20 > 5 > needed_gib(ours)


@pytest.mark.parametrize(
    "batch_size, method, measured_mib",
    [(32, "usual", 15_501), (256, "usual", 16_611), (32, "fused", 10_550), (256, "fused", 12_781), (256, "adam", 7_772)],
)
def test_the_memory_that_a_case_is_said_to_need_is_what_it_took(batch_size, method, measured_mib):
    case = Case("step", 1_305_265, 512, batch_size, method)
    assert measured_mib <= 1024 * needed_gib(case) < measured_mib + 1_024


def test_bounds_count_products_and_traffic():
    case = Case("step", 1_000, 100, 10, "sgd")
    # All logits fit: three products of 2 · 1,000 · 100 · 10 operations.
    assert needed_products(case, memory_mib=64) == 3
    assert bound_ms(case, gflops=1, gb_per_second=1e9, memory_mib=64) == pytest.approx(6.0)
    # None fits: a fourth one.
    assert bound_ms(case, gflops=1, gb_per_second=1e9, memory_mib=0) == pytest.approx(8.0)
    # Three passes over 400,000 bytes.
    assert bound_ms(case, gflops=1e9, gb_per_second=1, memory_mib=64) == pytest.approx(1.2)


def test_a_target_is_missed_if_one_of_its_cases_misses_it():
    def case(method):
        return Case("step", 1_000, 8, 3, method)

    def rounds(milliseconds):
        return {"rounds": [{"ms": [milliseconds], "first_loss": 1.0, "extra_mib": 0.0, "process_mib": 1.0}]}

    results = {case("usual").name: rounds(100.0), case("fused").name: rounds(50.0), case("adam").name: rounds(10.0)}
    results |= {case("sgd").name: rounds(10.0), case("rowwise").name: rounds(25.0)}
    cases = [case(method) for method in ("usual", "fused", "sgd", "rowwise", "adam")]
    found = {check.target: check for check in checks(compare(results, cases, memory_mib=64))}
    missed = next(check for target, check in found.items() if "SGD and row-wise in backward at least 4.8" in target)
    assert missed.met is False and missed.measured.startswith("worst 4 ×")
    met = next(check for target, check in found.items() if "Adam in backward at least 3.6" in target)
    assert met.met is True and met.measured.startswith("10 ×")


def test_a_measurement_that_takes_no_time_is_still_made_once():
    assert len(measure(Case("step", 50, 4, 2, "sgd"), Effort(0.0), threads=1)["ms"]) == 1
