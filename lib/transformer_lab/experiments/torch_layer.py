"""torch's own encoder layer as one of our blocks: the same weights in other places."""

import torch
from torch import nn

from transformer_lab.model.blocks import Block


@torch.no_grad()
def block_from(layer: nn.TransformerEncoderLayer) -> Block:
    """A `Block` with the weights of a torch layer that has a ReLU, in evaluation mode.

    torch keeps W_Q, W_K and W_V in one matrix, one above the other.

    Raises:
        ValueError: a layer with another activation.
    """
    if layer.activation_relu_or_gelu != 1:
        raise ValueError("the layer's activation is no ReLU; build it with activation='relu', torch's default.")
    attention = layer.self_attn
    block = Block(
        attention.embed_dim, attention.num_heads, layer.linear1.out_features,
        norm_order="pre" if layer.norm_first else "post", norm_eps=layer.norm1.eps, activation="relu",
    )  # fmt: skip
    ours, feedforward = block.self_attention.sublayer, block.feedforward.sublayer
    projections = (ours.query_projection, ours.key_projection, ours.value_projection)
    stacked = zip(attention.in_proj_weight.chunk(3), attention.in_proj_bias.chunk(3), strict=True)
    for projection, (weight, bias) in zip(projections, stacked, strict=True):
        projection.weight.copy_(weight)
        projection.bias.copy_(bias)
    for target, source in (
        (ours.output_projection, attention.out_proj),
        (feedforward.up, layer.linear1),
        (feedforward.down, layer.linear2),
        (block.self_attention.norm, layer.norm1),
        (block.feedforward.norm, layer.norm2),
    ):
        target.load_state_dict(source.state_dict())
    return block.eval()
