"""What the model is compared with: seeded tensors, attention row by row, torch's weights in our modules."""

import torch
from torch import Tensor, nn

from transformer_lab.model.attention import MultiHeadAttention
from transformer_lab.model.blocks import Block

PATHS = {"fused": False, "readable": True}  # the name of each path and the `need_weights` that chooses it


def randn(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float32) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(shape, generator=generator, dtype=torch.float64).to(dtype)


def query_key_value(batch=2, heads=4, n_query=5, n_key=5, *, kv_heads=None, d_head=8, seed=0, dtype=torch.float32):
    kv_heads = kv_heads or heads
    query = randn(batch, heads, n_query, d_head, seed=seed, dtype=dtype)
    key, value = (randn(batch, kv_heads, n_key, d_head, seed=seed + i, dtype=dtype) for i in (1, 2))
    return query, key, value


def row_by_row(query, key, value, allowed: Tensor, bias: Tensor | None = None) -> Tensor:
    """Attention in plain loops: each query softmaxes over the keys it may see, and over no others."""
    batch, heads, n_query, d_head = query.shape
    shape = (batch, heads, n_query, key.shape[2])
    allowed = allowed.expand(shape)
    bias = torch.zeros(shape, dtype=query.dtype) if bias is None else bias.expand(shape)
    group = heads // key.shape[1]
    output = torch.zeros(batch, heads, n_query, value.shape[3], dtype=query.dtype)
    for b in range(batch):
        for h in range(heads):
            for i in range(n_query):
                seen = [j for j in range(shape[3]) if allowed[b, h, i, j] and bias[b, h, i, j] > -torch.inf]
                if seen:
                    scores = [query[b, h, i].dot(key[b, h // group, j]) / d_head**0.5 + bias[b, h, i, j] for j in seen]
                    output[b, h, i] = torch.stack(scores).softmax(0) @ value[b, h // group, seen]
    return output


def copy_of(theirs: nn.MultiheadAttention) -> MultiHeadAttention:
    """Our module with the weights of torch's, which keeps the three input projections in one matrix."""
    ours = MultiHeadAttention(
        theirs.embed_dim, theirs.num_heads, bias=theirs.in_proj_bias is not None, dropout=theirs.dropout
    ).to(theirs.out_proj.weight.dtype)
    projections = (ours.query_projection, ours.key_projection, ours.value_projection)
    with torch.no_grad():
        for projection, weight in zip(projections, theirs.in_proj_weight.chunk(3), strict=True):
            projection.weight.copy_(weight)
        ours.output_projection.weight.copy_(theirs.out_proj.weight)
        if theirs.in_proj_bias is not None:
            for projection, bias in zip(projections, theirs.in_proj_bias.chunk(3), strict=True):
                projection.bias.copy_(bias)
            ours.output_projection.bias.copy_(theirs.out_proj.bias)
    return ours.train(theirs.training)


def block_copy_of(theirs: nn.TransformerEncoderLayer | nn.TransformerDecoderLayer) -> Block:
    """Our block with the weights of torch's layer."""
    decoder = isinstance(theirs, nn.TransformerDecoderLayer)
    ours = Block(
        theirs.self_attn.embed_dim,
        theirs.self_attn.num_heads,
        theirs.linear1.out_features,
        norm_order="pre" if theirs.norm_first else "post",
        norm_eps=theirs.norm1.eps,
        activation=theirs.activation.__name__,
        cross_attention=decoder,
        bias=theirs.linear1.bias is not None,
        dropout=theirs.dropout1.p,
    ).to(theirs.linear1.weight.dtype)
    parts = {ours.self_attention.sublayer: copy_of(theirs.self_attn), ours.self_attention.norm: theirs.norm1}
    if decoder:
        parts[ours.cross_attention.sublayer] = copy_of(theirs.multihead_attn)
        parts[ours.cross_attention.norm] = theirs.norm2
    parts |= {
        ours.feedforward.sublayer.up: theirs.linear1,
        ours.feedforward.sublayer.down: theirs.linear2,
        ours.feedforward.norm: theirs.norm3 if decoder else theirs.norm2,
    }
    for mine, their in parts.items():
        mine.load_state_dict(their.state_dict())
    return ours.train(theirs.training)
