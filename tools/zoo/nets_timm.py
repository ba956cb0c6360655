"""Networks of timm, with small widths."""

from __future__ import annotations

from typing import Any

import timm
import torch
from network import image, network
from torch import nn

# name, timm's name, input, how it is exported, arguments
_MODELS: tuple[tuple[str, str, int, dict[str, Any], dict[str, Any]], ...] = (
    ("timm_efficientnet_lite", "efficientnet_lite0", 96, {"opset": 11}, {}),
    ("timm_efficientnetv2", "tf_efficientnetv2_b0", 64, {"opset": 13}, {}),
    ("timm_mobilenetv4", "mobilenetv4_conv_small_050", 96, {"opset": 15}, {}),
    ("timm_mobilenetv4_hybrid", "mobilenetv4_hybrid_medium", 64, {"opset": 17}, {}),
    ("timm_ghostnet", "ghostnet_050", 96, {"opset": 12}, {}),
    ("timm_mobileone", "mobileone_s0", 64, {"opset": 14}, {}),
    ("timm_repvgg", "repvgg_a0", 64, {"opset": 11}, {}),
    ("timm_repvit", "repvit_m0_9", 64, {"opset": 17}, {}),
    ("timm_fastvit", "fastvit_t8", 64, {"opset": 17}, {}),
    ("timm_mobilevit", "mobilevit_xxs", 64, {"opset": 14}, {}),
    ("timm_mobilevitv2", "mobilevitv2_050", 64, {"opset": 17}, {}),
    ("timm_convnext", "convnext_atto", 64, {"dynamo": True}, {}),
    ("timm_convnextv2", "convnextv2_atto", 64, {"opset": 17}, {}),
    ("timm_swin", "swin_tiny_patch4_window7_224", 56, {"opset": 17},
     {"img_size": 56, "embed_dim": 32, "depths": (2, 2), "num_heads": (2, 4)}),
    ("timm_swin_dynamo", "swin_tiny_patch4_window7_224", 56, {"dynamo": True},
     {"img_size": 56, "embed_dim": 32, "depths": (2, 2), "num_heads": (2, 4)}),
    ("timm_vit", "vit_tiny_patch16_224", 64, {"opset": 14}, {"img_size": 64, "depth": 3, "embed_dim": 96}),
    ("timm_deit_distilled", "deit_tiny_distilled_patch16_224", 64, {"opset": 14}, {"img_size": 64, "depth": 3}),
    ("timm_mixer", "mixer_s16_224", 64, {"opset": 13}, {"img_size": 64}),
    ("timm_poolformer", "poolformer_s12", 64, {"opset": 13}, {}),
    ("timm_levit", "levit_128s", 224, {"opset": 13}, {}),
    ("timm_edgenext", "edgenext_xx_small", 64, {"opset": 17}, {}),
    ("timm_efficientformer", "efficientformer_l1", 224, {"opset": 13}, {}),
    ("timm_efficientvit", "efficientvit_b0", 64, {"opset": 13}, {}),
    ("timm_hrnet", "hrnet_w18_small", 64, {"opset": 11}, {}),
    ("timm_res2net", "res2net50_14w_8s", 64, {"opset": 12}, {}),
    ("timm_seresnet", "legacy_seresnet18", 64, {"opset": 11}, {}),
    ("timm_rexnet", "rexnet_100", 64, {"opset": 12}, {}),
    ("timm_ese_vovnet", "ese_vovnet19b_slim_dw", 64, {"opset": 12}, {}),
    ("timm_dla", "dla46_c", 64, {"opset": 11}, {}),
    ("timm_xcit", "xcit_nano_12_p16_224", 64, {"opset": 17}, {"img_size": 64, "depth": 2}),
    ("timm_starnet", "starnet_s1", 64, {"opset": 16}, {}),
    ("timm_inception_next", "inception_next_atto", 64, {"opset": 17}, {}),
    ("timm_tinynet", "tinynet_e", 96, {"opset": 13}, {}),
    ("timm_hardcorenas", "hardcorenas_a", 64, {"opset": 12}, {}),
    ("timm_lcnet", "lcnet_050", 96, {"opset": 12}, {}),
)  # fmt: skip


def _alive(module: nn.Module) -> nn.Module:
    """Layer scales start near zero, which would leave the blocks of an untrained network without effect."""
    with torch.no_grad():
        for name, parameter in module.named_parameters():
            if parameter.ndim == 1 and name.endswith(
                (".gamma", ".gamma1", ".gamma2", "ls1.gamma", "layer_scale")
            ):
                parameter.fill_(0.3)
    return module


def _builder(kind: str, arguments: dict[str, Any]) -> Any:
    return lambda: _alive(timm.create_model(kind, pretrained=False, num_classes=50, **arguments))


for _name, _kind, _size, _how, _arguments in _MODELS:
    network(_name, image(_size), **_how)(_builder(_kind, _arguments))
