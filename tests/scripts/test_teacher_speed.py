"""The benchmark of a teacher's cost."""

import teacher_speed
from small_corpus import write_corpus


def test_index_and_latency_are_measured_on_a_small_corpus(tmp_path, monkeypatch):
    monkeypatch.setattr(teacher_speed, "WARM_UP", 1)
    case = teacher_speed.measure(str(write_corpus(tmp_path / "data")), num_texts=3, batch_sizes=(1, 2))
    assert case["num_training_texts"] > 0 and case["index_mib"] > 0 and case["index_seconds"] > 0
    assert [times["batch_size"] for times in case["latencies"]] == [1, 2]
    assert all(times["teacher_ms"] > 0 and times["together_ms"] > 0 for times in case["latencies"])
    results = {"machine": {"processor": "some"}, "torch": "2", "num_texts": 3, "cases": [case]}
    assert teacher_speed.markdown(results).count("\n| data | ") == 2
