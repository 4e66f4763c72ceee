import pytest
from huggingface_hub.errors import HfHubHTTPError

from hf_xmtc import XMTCTrainingArguments
from hf_xmtc.commands.push import explain_failed_push
from hf_xmtc.hub import push_folder


def test_a_push_that_fails_says_that_the_model_is_finished_and_how_to_push_it(tmp_path):
    args = XMTCTrainingArguments(output_dir=str(tmp_path), hub_model_id="me/tagger", hub_token="hf_of_the_tests")
    folder = tmp_path / "my tagger"
    folder.mkdir()
    args.hub_private_repo, args.hub_revision = True, "first"
    with pytest.raises(OSError, match="not a complete model folder") as refused, explain_failed_push(folder, args):
        push_folder(folder, "me/tagger")
    said = str(refused.value)
    assert said.startswith(f"The model is finished in {folder}, but was not published: ")
    assert said.endswith(f"hf-xmtc push --model '{folder}' --repo_id me/tagger --private --revision first")
    assert args.hub_token not in said
    assert issubclass(HfHubHTTPError, OSError)  # so that a Hub that is out of order is explained too


def test_a_push_that_works_says_nothing(tmp_path):
    with explain_failed_push(tmp_path, XMTCTrainingArguments(output_dir=str(tmp_path))):
        pass
