import pytest
import torch
from torch.nn.functional import conv1d

from hf_xmtc import XMLCNNConfig, XMLCNNForXMTC, add_cls_tokens, train_word_tokenizer
from hf_xmtc.models.modeling_xmlcnn import pool_documents
from models.families import LONG, SHORT, make_batch
from models.golden import assert_close, assert_gradients_close, load_golden, stored_parameters

# In the golden files: filters [F, 1, k, E] of two-dimensional convolutions.
RENAMED = [
    (r"^embedding\.", "words.embedding."),
    (r"^conv_width2\.", "filters.0.convolution."),
    (r"^conv_width4\.", "filters.1.convolution."),
    (r"^conv_width8\.", "filters.2.convolution."),
]

TINY = {"vocab_size": 40, "embedding_size": 12, "num_filters": 6, "pool_size": 4, "bottleneck_size": 10}
TINY |= {"cornet_num_blocks": 0, "num_labels": 5}


def parameters_of(golden: dict, prefix: str = "") -> dict[str, torch.Tensor]:
    stored = stored_parameters(golden, RENAMED, prefix)
    return {name: value.squeeze(1).mT if value.dim() == 4 else value for name, value in stored.items()}


def authors_model(golden: dict, settings: dict, **changes) -> XMLCNNForXMTC:
    """The authors' network with the stored weights, CorNet included where ``cornet_num_blocks`` asks for it."""
    sizes = {
        "vocab_size": settings["vocab_size"],
        "embedding_size": settings["emb_size"],
        "num_filters": settings["num_filters"],
        "pool_size": settings["dynamic_pool_length"],
        "bottleneck_size": settings["bottleneck_dim"],
        "num_labels": settings["labels_num"],
        "cornet_num_blocks": 0,
        "cornet_context_size": settings["cornet_context_size"],
        "padded_length": golden["input_ids"].shape[1],
    }
    model = XMLCNNForXMTC(XMLCNNConfig.reproduction(**{**sizes, **changes})).eval()
    stored = parameters_of(golden)
    model.load_state_dict({name: stored[name] for name in model.state_dict()})
    return model


# ---- the authors' code -----------------------------------------------------------------------------------------------------


@torch.no_grad()
@pytest.mark.parametrize("name", ["xmlcnn", "xmlcnn_bottleneck"])
def test_logits_equal_the_authors(name):
    golden, settings = load_golden(name)
    for num_blocks, logits in ((0, "logits"), (settings["cornet_blocks"], "logits_cornet")):
        model = authors_model(golden, settings, cornet_num_blocks=num_blocks)
        assert_close(model(golden["input_ids"]).logits, golden[logits], 1e-5, logits)
    if name == "xmlcnn_bottleneck":
        assert_close(model.encode(golden["input_ids"]), golden["bottleneck_out"], 1e-5, "bottleneck")


@torch.no_grad()
def test_inner_states_equal_the_authors():
    golden, settings = load_golden("xmlcnn")
    model = authors_model(golden, settings)
    embedded = model.words(golden["input_ids"]).mT
    for filters, width in zip(model.filters, (2, 4, 8), strict=True):
        convolved = filters.convolution(embedded)
        expected = golden[f"mid.conv_width{width}_out"].squeeze(-1)
        assert_close(convolved.relu(), expected.relu(), 1e-5, f"width {width}")
    pooled = torch.cat([filters(embedded, None).flatten(1) for filters in model.filters], dim=1)
    assert_close(pooled, golden["mid.pooled_flat"], 1e-5, "pooled")


@torch.no_grad()
def test_more_padding_and_a_padding_row_that_is_not_zero_change_the_scores_as_in_the_authors_code():
    golden, settings = load_golden("xmlcnn")
    longer = authors_model(golden, settings, padded_length=golden["input_ids_longer"].shape[1])
    for input_ids in (golden["input_ids"], golden["input_ids_longer"]):
        assert_close(longer(input_ids).logits, golden["logits_longer"], 1e-5, "longer")
    model = authors_model(golden, settings)
    model.get_input_embeddings().weight[0] = golden["alt_pad_row"]
    assert_close(model(golden["input_ids"]).logits, golden["logits_alt_pad_row"], 1e-5, "padding row")


@pytest.mark.parametrize(("num_blocks", "loss", "prefix"), [(0, "loss", "grad."), (2, "loss_cornet", "grad_cornet.")])
def test_loss_and_all_gradients_equal_the_authors(num_blocks, loss, prefix):
    golden, settings = load_golden("xmlcnn")
    model = authors_model(golden, settings, cornet_num_blocks=num_blocks)
    output = model(golden["input_ids"], labels=golden["targets"])
    assert_close(output.loss, golden[loss], 1e-5, loss)
    output.loss.backward()
    assert_gradients_close(model, parameters_of(golden, prefix))


def test_filters_of_the_reproduction_start_ten_times_smaller_at_the_sizes_of_the_paper():
    spread = [
        XMLCNNForXMTC(make(vocab_size=3, bottleneck_size=2)).filters[1].convolution.weight.abs().max()
        for make in (XMLCNNConfig, XMLCNNConfig.reproduction)
    ]
    assert (spread[0] / spread[1]).item() == pytest.approx(9.5, rel=0.01)


# ---- pooling over documents ------------------------------------------------------------------------------------------------


def test_a_document_is_pooled_in_chunks_that_do_not_overlap():
    features = torch.tensor([[[3.0, 1.0, 2.0, 5.0, 4.0, 9.0]], [[3.0, 1.0, 2.0, 5.0, 4.0, 9.0]]])
    pooled = pool_documents(features, torch.tensor([5, 6]), 2)
    assert pooled.tolist() == [[[3.0, 5.0]], [[2.0 + 1.0, 9.0]]]  # positions 0-2 and 3-4, then 0-2 and 3-5


def test_chunks_of_a_document_that_is_too_short_for_them_are_zero():
    assert pool_documents(torch.tensor([[[7.0, 8.0, 9.0]]]), torch.tensor([2]), 4).tolist() == [[[7.0, 0.0, 8.0, 0.0]]]


def test_pooling_and_its_gradient_equal_a_loop_over_documents_and_chunks():
    torch.manual_seed(0)
    features, lengths = torch.rand(5, 3, 17, requires_grad=True), torch.tensor([17, 1, 5, 8, 16])
    pooled = pool_documents(features, lengths, 4)
    expected = torch.zeros(5, 3, 4)
    for row, length in enumerate(lengths.tolist()):
        for position in range(length):
            chunk = position * 4 // length
            expected[row, :, chunk] = torch.maximum(expected[row, :, chunk].clone(), features[row, :, position])
    assert torch.equal(pooled, expected)
    weights = torch.rand(5, 3, 4)
    (gradient,) = torch.autograd.grad((pooled * weights).sum(), features, retain_graph=True)
    assert torch.equal(gradient, torch.autograd.grad((expected * weights).sum(), features)[0])


@torch.no_grad()
def test_scores_equal_filters_slid_over_each_document_alone():
    torch.manual_seed(2)
    model = XMLCNNForXMTC(XMLCNNConfig(**TINY)).eval()
    logits = model(**make_batch(model, [SHORT, LONG])).logits
    for row, document in enumerate((SHORT, LONG)):
        embedded = model.get_input_embeddings().weight[document].T[None]  # (1, E, T)
        pooled = []
        for filters in model.filters:
            convolution = filters.convolution
            width = convolution.kernel_size[0]
            values = conv1d(embedded, convolution.weight, convolution.bias, padding=width - 1)[0].relu()
            size = values.shape[1]
            chunks = [[i for i in range(size) if i * 4 // size == chunk] for chunk in range(4)]
            pooled += [torch.stack([values[:, chunk].amax(dim=1) for chunk in chunks if chunk], dim=1)]
            if not all(chunks):
                full = torch.zeros(len(values), 4)
                full[:, [index for index, chunk in enumerate(chunks) if chunk]] = pooled[-1]
                pooled[-1] = full
        features = model.bottleneck(torch.cat([part.flatten() for part in pooled])).relu()
        torch.testing.assert_close(logits[row], model.label_head(features[None])[0], rtol=0, atol=1e-5)


# ---- settings and inputs ---------------------------------------------------------------------------------------------------


@torch.no_grad()
def test_a_text_without_known_tokens_and_a_batch_of_such_texts_are_scored():
    tokenizer = train_word_tokenizer(["a plain text file"], max_length=8)
    config = XMLCNNConfig.for_tokenizer(tokenizer, **{key: value for key, value in TINY.items() if key != "vocab_size"})
    model = XMLCNNForXMTC(config).eval()
    alone = model(**tokenizer([""], return_tensors="pt", padding=True)).logits
    assert alone.shape == (1, 5) and alone.isfinite().all()
    together = model(**tokenizer(["", "a plain file"], return_tensors="pt", padding=True)).logits
    torch.testing.assert_close(together[:1], alone, rtol=0, atol=1e-5)


def test_inputs_longer_than_the_padded_length_are_refused():
    model = XMLCNNForXMTC(XMLCNNConfig.reproduction(**TINY, padded_length=9))
    assert model(torch.full((1, 9), 5)).logits.shape == (1, 5)
    with pytest.raises(ValueError, match="has 10 tokens but the model takes 9"):
        model(torch.full((1, 10), 5))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"pooling": "chunks"}, "pooling='chunks' is not one of document, padded"),
        ({"pooling": "padded"}, "pooling='padded' and padded_length=None"),
        ({"padded_length": 500}, "pooling='document' and padded_length=500"),
        ({"filter_widths": []}, "filter_widths is empty"),
        ({"filter_widths": [2, 0]}, r"filter_widths=\[2, 0\], but a size is at least 1"),
        ({"pool_size": 0}, "pool_size=0, but a size is at least 1"),
        ({"pad_token_id": 40}, "pad_token_id=40 is no row of an embedding table of vocab_size=40"),
    ],
)
def test_settings_that_cannot_be_used_are_refused(settings, message):
    with pytest.raises(ValueError, match=message):
        XMLCNNConfig(**{**TINY, **settings})


def test_every_setting_comes_back_from_a_file(tmp_path):
    for settings in ({}, {"pooling": "padded", "padded_length": 30, "convolutions_as_images": True, "filter_widths": [3]}):
        written = XMLCNNConfig(**TINY, **settings, freeze_embeddings=bool(settings))
        written.save_pretrained(tmp_path)
        read = XMLCNNConfig.from_pretrained(tmp_path)
        fields = {*XMLCNNConfig.file_defaults(), "filter_widths", *TINY}
        assert {field: getattr(read, field) for field in fields} == {field: getattr(written, field) for field in fields}


def test_a_tokenizer_that_pads_with_another_id_is_refused():
    tokenizer = train_word_tokenizer(["a plain text file"], max_length=8)
    XMLCNNForXMTC(XMLCNNConfig(**TINY)).check_tokenizer(tokenizer)
    with pytest.raises(ValueError, match="pads with id 0 but the model takes 3 for padding"):
        XMLCNNForXMTC(XMLCNNConfig(**TINY, pad_token_id=3)).check_tokenizer(tokenizer)
    with pytest.raises(ValueError, match="puts 2 tokens around every text, which XMLCNNForXMTC would read as words"):
        XMLCNNForXMTC(XMLCNNConfig(**TINY)).check_tokenizer(add_cls_tokens(tokenizer, 2, max_length=20))
