"""Networks whose layers are not where one looks for them: convolutions with computed weights, relative places, codecs.

Siamese trackers correlate features of a frame with those of a template, which are the weights of that convolution.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
import torch.nn.functional as F
import transformers as hf
from nets_transformers import lively, wrap
from network import image, network, signal, tokens
from torch import nn

_SIZE = 32


class Features(nn.Sequential):
    """Three convolutions, an eighth of the picture's size."""

    def __init__(self, size: int = _SIZE) -> None:
        layers: list[nn.Module] = []
        for inputs, outputs in ((3, size // 2), (size // 2, size), (size, size)):
            layers += [nn.Conv2d(inputs, outputs, 3, 2, 1, bias=False), nn.BatchNorm2d(outputs), nn.ReLU()]
        super().__init__(*layers[:-1])


class Siamese(nn.Module):
    """SiamFC's dense correlation, or SiamRPN++'s depthwise one with a head behind it."""

    def __init__(self, depthwise: bool) -> None:
        super().__init__()
        self.features, self.depthwise = Features(), depthwise
        self.head = nn.Sequential(nn.Conv2d(_SIZE, _SIZE, 1), nn.ReLU(), nn.Conv2d(_SIZE, 5, 1))

    def forward(self, template: torch.Tensor, frame: torch.Tensor) -> torch.Tensor:
        """A map of likeness, or of scores and boxes."""
        weights, x = self.features(template), self.features(frame)
        if not self.depthwise:
            return F.conv2d(x, weights) * 0.01
        if x.shape[0] > 1:  # several pairs, while batch norms are calibrated
            pairs = zip(x.split(1), weights.split(1))
            return torch.cat([self._scored(one, other) for one, other in pairs])
        return self._scored(x, weights)

    def _scored(self, x: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
        return self.head(F.conv2d(x, weights.transpose(0, 1), groups=_SIZE) * 0.1)


class Templates(nn.Module):
    """One frame against a batch of templates, each an output channel; STARK and few-shot detectors do this."""

    def __init__(self) -> None:
        super().__init__()
        self.features = Features()

    def forward(self, templates: torch.Tensor, frame: torch.Tensor) -> torch.Tensor:
        """(1, templates, height, width)."""
        weights = F.adaptive_avg_pool2d(self.features(templates), 1)
        return F.conv2d(self.features(frame), weights).sigmoid()


_UNIT: dict[str, Any] = {"mean": (0.0,), "std": (255.0,)}


@network("siamese_dense", image(48), image(96), opset=12, **_UNIT)
def _siamese_dense() -> Any:
    return Siamese(False)


@network("siamese_depthwise", image(48), image(96), opset=13, **_UNIT)
def _siamese_depthwise() -> Any:
    return Siamese(True)


@network("siamese_templates", replace(image(48), shape=(4, 3, 48, 48)), image(96), opset=14, **_UNIT)
def _siamese_templates() -> Any:
    return Templates()


@network("hf_deberta_v2", tokens(1, 24, high=200), opset=14)
def _deberta() -> Any:
    config = hf.DebertaV2Config(
        vocab_size=200,
        hidden_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=128,
        relative_attention=True,
        position_buckets=8,
        pos_att_type=["p2c", "c2p"],
        share_att_key=True,
        norm_rel_ebd="layer_norm",
        position_biased_input=False,
        max_relative_positions=24,
    )
    return wrap("DebertaV2Model", config, lambda m, ids: m(ids)[0])


@network("hf_encodec", signal(1, 1, 960), opset=13)
def _encodec() -> Any:
    """Encoder and decoder without the codebooks between them."""
    config = hf.EncodecConfig(
        num_filters=8,
        hidden_size=32,
        codebook_dim=32,
        upsampling_ratios=[4, 2, 2],
        num_lstm_layers=1,
        use_causal_conv=False,
    )
    net = lively(hf.EncodecModel(config).eval())

    class Codec(nn.Module):
        """Sound -> sound."""

        def __init__(self) -> None:
            super().__init__()
            self.encoder, self.decoder = net.encoder, net.decoder

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.decoder(self.encoder(x))

    return Codec()
