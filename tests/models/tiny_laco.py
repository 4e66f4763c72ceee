"""LACO at tiny size, with the ids that a BERT tokenizer gives to special tokens."""

import torch
from transformers import BertConfig

from hf_xmtc import LACOConfig, LACOForXMTC
from models.families import LONG, SHORT

__all__ = ["BACKBONE", "BATCH", "CLS", "LABELS", "SEP", "build", "candidate_model"]

BACKBONE = {
    "hidden_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 24,
    "max_position_embeddings": 40,
    "vocab_size": 40,
    "initializer_range": 0.5,
    "hidden_dropout_prob": 0.0,
    "attention_probs_dropout_prob": 0.0,
}
CLS, SEP = 2, 3
# What a BERT tokenizer gives for two texts.
BATCH = [[CLS, *SHORT, SEP], [CLS, *LONG, SEP]]
LABELS = torch.tensor([[0, 2, 3], [1, -100, -100]])


def build(seed: int = 0, reproduction: bool = False, **settings) -> LACOForXMTC:
    torch.manual_seed(seed)
    config = {
        "backbone_config": BertConfig(**BACKBONE),
        "num_labels": 6,
        "cls_token_id": CLS,
        "sep_token_id": SEP,
        "classifier_dropout": 0.0,
        "cross_attention_kernel": (3, 1),
        "cross_attention_channels": 16,
        **settings,
    }
    if reproduction:
        config = {
            name: value for name, value in config.items() if not name.startswith("cross_attention") or name in settings
        }
        return LACOForXMTC(LACOConfig.reproduction(**config)).eval()
    return LACOForXMTC(LACOConfig(**config)).eval()


def candidate_model(**settings) -> LACOForXMTC:
    """50 labels, of which each document has six candidates; not at its start, where votes alone count."""
    model = build(num_labels=50, num_candidates=6, **settings)
    with torch.no_grad():
        for layer in (model.label_head.output, model.label_term.output):
            layer.weight.normal_(std=0.5)
    return model
