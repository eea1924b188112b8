"""What a model makes of a text that is given.

Shapes: B rows, T tokens of a row, V vocabulary.
"""

from typing import Any

import numpy as np
import torch

from ..errors import BadConfig
from ..model import LanguageModel
from ..tokenizers import Tokenizer


@torch.no_grad()
def token_probabilities(
    model: LanguageModel, tokenizer: Tokenizer, prompt: str, completion: str, top: int = 5
) -> list[Any]:
    """For every token of a completion: the token, its probability, and the likeliest alternatives."""
    ids = np.concatenate([tokenizer.encode(prompt), tokenizer.encode(completion)]).astype(np.int64)
    first = len(tokenizer.encode(prompt))
    device = next(model.parameters()).device
    was_training = model.training
    model.eval()
    probabilities_TV = model(torch.from_numpy(ids[None, :-1]).to(device))[0].float().softmax(dim=-1).cpu()
    model.train(was_training)
    rows = []
    for place in range(first, len(ids)):
        chances_V = probabilities_TV[place - 1]
        best = chances_V.topk(min(top, len(chances_V)))
        rows.append(
            {
                "token": tokenizer.decode(ids[place : place + 1]),
                "probability": float(chances_V[ids[place]]),
                "likeliest": [
                    (tokenizer.decode(np.array([index])), float(chance))
                    for index, chance in zip(best.indices.tolist(), best.values.tolist(), strict=True)
                ],
            }
        )
    return rows


@torch.no_grad()
def perplexity(model: LanguageModel, tokens: Any, window: int | None = None, batch_size: int = 16) -> float:
    """exp of the mean loss over a stream, read in windows, none overlapping, as long as the model's context."""
    context = min(window or model.context, len(tokens) - 1)
    if context < 1:
        raise BadConfig("perplexity needs at least two tokens")
    device = next(model.parameters()).device
    ids = np.asarray(tokens).astype(np.int64)
    starts = range(0, len(ids) - context, context)
    was_training = model.training
    model.eval()
    total = count = 0.0
    for at in range(0, len(starts), batch_size):
        windows = np.stack([ids[start : start + context + 1] for start in starts[at : at + batch_size]])
        windows_BT = torch.from_numpy(windows).to(device)
        total += float(model.loss(windows_BT[:, :-1], windows_BT[:, 1:]))
        count += windows_BT[:, 1:].numel()
    model.train(was_training)
    return float(np.exp(total / count))
