"""What an encoder learns and what stands on it: lower rates for its lower layers, heads that are not trained."""

import re

from hf_xmtc.models.modeling_xmtc import XMTCPreTrainedModel

__all__ = ["check_encoder_options", "freeze_heads", "layer_learning_rates", "with_layer_rates"]

# The encoder and the tokens that it reads beside the text.
ENCODER = ("backbone.", "label_embedding.")
# encoder.layer.3.…, transformer.layer.3.…, encoder.albert_layer_groups.0.… (ALBERT's layers share their weights).
LAYER = re.compile(r"\.(?:\w*layers?|\w*layer_groups)\.(\d+)\.")


def layer_learning_rates(model: XMTCPreTrainedModel, learning_rate: float, decay: float) -> dict[str, float]:
    """The learning rate of each parameter of the encoder, by its name in the model.

    Layer i of N has learning_rate · decay^(N + 2 - i), the embeddings below it what a layer 0 would have, and what stands above all
    layers or belongs to none the topmost layer's. All else, which is new, keeps the full rate.

    Args:
        model: A model with an encoder of transformers.
        learning_rate: The full rate.
        decay: Factor from a layer to the one below it.

    Raises:
        ValueError: If the model has no such encoder.

    Source: the code of LACO (0.8), after ELECTRA's. There the heads keep no rate at all (`freeze_heads`).
    """
    check_encoder_options(model, layer_learning_rate_decay=decay)
    found = {f"backbone.{name}": LAYER.search(f".{name}") for name, _ in model.backbone.named_parameters()}
    of_layers = {name: int(match[1]) + 1 for name, match in found.items() if match is not None}
    top = max(of_layers.values(), default=0)
    depths = {name: of_layers.get(name, 0 if "embed" in name else top) for name in found}
    return {name: learning_rate * decay ** (top + 2 - depth) for name, depth in depths.items()}


def freeze_heads(model: XMTCPreTrainedModel) -> None:
    """Leave everything but the encoder and its label tokens as it is: label head, cross attention, auxiliary heads.

    The contrary of freezing ``model.base_model`` but for cross attention and pooler, which stand before the label head and are new.

    Raises:
        ValueError: If the model has no encoder of transformers.

    Source: the code of LACO, whose optimizer knows no rate for them.
    """
    check_encoder_options(model, freeze_heads=True)
    for name, parameter in model.named_parameters():
        if not name.startswith(ENCODER):
            parameter.requires_grad_(False)


def check_encoder_options(
    model: XMTCPreTrainedModel, layer_learning_rate_decay: float = 1.0, freeze_heads: bool = False
) -> None:
    """Refuse what is about the layers of an encoder of transformers for a model without any.

    Raises:
        ValueError: If one of them is not at its default and there is none.
    """
    if hasattr(model, "backbone"):
        return
    options = (("layer_learning_rate_decay", layer_learning_rate_decay, 1.0), ("freeze_heads", freeze_heads, False))
    for option, value, idle in options:
        if value == idle:
            continue
        other = "name a backbone" if hasattr(model, "from_backbone") else "choose a family with a backbone"
        raise ValueError(
            f"{option}={value}, but this {type(model).__name__} has no encoder of transformers. Leave it out, or {other}."
        )


def with_layer_rates(groups: list[dict], model: XMTCPreTrainedModel, rates: dict[str, float]) -> list[dict]:
    """Split parameter groups by the rates that some parameters have by name; the others keep their group's."""
    by_parameter = {id(parameter): rates[name] for name, parameter in model.named_parameters() if name in rates}
    split: dict[tuple[int, float], dict] = {}
    for position, group in enumerate(groups):
        for parameter in group["params"]:
            rate = by_parameter.get(id(parameter), group["lr"])
            split.setdefault((position, rate), {**group, "params": [], "lr": rate})["params"].append(parameter)
    return list(split.values())
