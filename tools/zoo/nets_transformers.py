"""Random small configurations of transformers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import transformers as hf
from network import image, network, signal, tokens
from torch import nn

_HALVES: dict[str, Any] = {"mean": (127.5,), "std": (127.5,)}


class Wrapped(nn.Module):
    """A network and what is wanted of its answer."""

    def __init__(self, inner: nn.Module, call: Callable[..., Any]) -> None:
        super().__init__()
        self.inner, self.call = inner, call

    def forward(self, *inputs: torch.Tensor) -> Any:
        """Tensors only."""
        return self.call(self.inner, *inputs)


def lively(net: nn.Module) -> nn.Module:
    """The package starts all weights at 0.02, with which values of narrow networks vanish layer by layer."""
    with torch.no_grad():
        for module in net.modules():
            if isinstance(module, (nn.Linear, nn.Conv1d, nn.Conv2d)):
                module.weight.normal_(0, module.weight[0].numel() ** -0.5)
    return net


def wrap(kind: str, config: Any, call: Callable[..., Any]) -> nn.Module:
    config._attn_implementation = "eager"
    for part in ("text_config", "vision_config", "backbone_config"):
        if getattr(config, part, None) is not None and not isinstance(getattr(config, part), dict):
            getattr(config, part)._attn_implementation = "eager"
    return Wrapped(lively(getattr(hf, kind)(config).eval()), call)


_TEXT = {
    "vocab_size": 200,
    "hidden_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 128,
}
_VISION = {
    "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 128, "image_size": 64, "patch_size": 16,
}  # fmt: skip


@network("hf_bert", tokens(1, 24, high=200), opset=12)
def _bert() -> Any:
    return wrap("BertModel", hf.BertConfig(**_TEXT), lambda m, ids: m(ids)[:2])


@network("hf_bert_dynamo", tokens(1, 24, high=200), dynamo=True)
def _bert_dynamo() -> Any:
    return wrap("BertModel", hf.BertConfig(**_TEXT), lambda m, ids: m(ids)[0])


@network("hf_bert_masked", tokens(1, 24, high=200), tokens(1, 24, high=2), opset=14)
def _bert_masked() -> Any:
    return wrap("BertModel", hf.BertConfig(**_TEXT), lambda m, ids, mask: m(ids, attention_mask=mask)[0])


@network("hf_distilbert", tokens(1, 24, high=200), opset=13)
def _distilbert() -> Any:
    config = hf.DistilBertConfig(vocab_size=200, dim=64, n_layers=2, n_heads=4, hidden_dim=128)
    return wrap("DistilBertForSequenceClassification", config, lambda m, ids: m(ids).logits)


@network("hf_albert", tokens(1, 24, high=200), opset=17)
def _albert() -> Any:
    return wrap("AlbertModel", hf.AlbertConfig(embedding_size=32, **_TEXT), lambda m, ids: m(ids)[0])


@network("hf_clip_vision", image(64), opset=14)
def _clip_vision() -> Any:
    config = hf.CLIPVisionConfig(projection_dim=32, **_VISION)
    return wrap("CLIPVisionModelWithProjection", config, lambda m, x: m(x).image_embeds)


@network("hf_clip_text", tokens(1, 16, high=200), opset=14)
def _clip_text() -> Any:
    config = hf.CLIPTextConfig(projection_dim=32, max_position_embeddings=16, eos_token_id=199, **_TEXT)
    return wrap("CLIPTextModel", config, lambda m, ids: m(ids)[0])


@network("hf_siglip_vision", image(64), opset=17, **_HALVES)
def _siglip() -> Any:
    return wrap("SiglipVisionModel", hf.SiglipVisionConfig(**_VISION), lambda m, x: tuple(m(x)[:2]))


@network("hf_vit", image(64), opset=16, **_HALVES)
def _vit() -> Any:
    return wrap("ViTForImageClassification", hf.ViTConfig(num_labels=50, **_VISION), lambda m, x: m(x).logits)


@network("hf_dinov2", image(56), opset=17)
def _dinov2() -> Any:
    config = hf.Dinov2Config(
        hidden_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        mlp_ratio=2,
        image_size=56,
        patch_size=14,
        layerscale_value=0.5,
    )
    return wrap("Dinov2Model", config, lambda m, x: m(x)[0])


@network("hf_depth_anything", image(70), opset=17)
def _depth_anything() -> Any:
    backbone = hf.Dinov2Config(
        hidden_size=64, num_hidden_layers=4, num_attention_heads=4, mlp_ratio=2, image_size=70, patch_size=14,
        out_indices=[1, 2, 3, 4], apply_layernorm=True, reshape_hidden_states=False, layerscale_value=0.5,
    )  # fmt: skip
    config = hf.DepthAnythingConfig(
        backbone_config=backbone, reassemble_hidden_size=64, patch_size=14, neck_hidden_sizes=[16, 24, 32, 48],
        fusion_hidden_size=24, head_hidden_size=16,
    )  # fmt: skip
    return wrap("DepthAnythingForDepthEstimation", config, lambda m, x: m(x).predicted_depth)


@network("hf_segformer", image(64), opset=12)
def _segformer() -> Any:
    config = hf.SegformerConfig(
        depths=[1, 1, 1, 1],
        hidden_sizes=[16, 24, 32, 48],
        num_attention_heads=[1, 1, 2, 2],
        decoder_hidden_size=32,
        num_labels=5,
    )
    return wrap("SegformerForSemanticSegmentation", config, lambda m, x: m(x).logits)


@network("hf_swin", image(64), opset=17)
def _swin() -> Any:
    config = hf.SwinConfig(image_size=64, embed_dim=24, depths=[2, 2], num_heads=[2, 4], window_size=4)
    return wrap("SwinModel", config, lambda m, x: m(x)[0])


@network("hf_mobilevit", image(64), opset=14)
def _mobilevit() -> Any:
    config = hf.MobileViTConfig(
        image_size=64,
        hidden_sizes=[24, 32, 40],
        neck_hidden_sizes=[8, 12, 16, 24, 32, 40, 64],
        num_attention_heads=2,
        num_labels=10,
    )
    return wrap("MobileViTForImageClassification", config, lambda m, x: m(x).logits)


@network("hf_pvt_v2", image(64), opset=14)
def _pvt() -> Any:
    config = hf.PvtV2Config(
        image_size=64,
        depths=[1, 1, 1, 1],
        hidden_sizes=[16, 24, 32, 48],
        num_attention_heads=[1, 1, 2, 4],
        mlp_ratios=[4, 4, 2, 2],
    )
    return wrap("PvtV2ForImageClassification", config, lambda m, x: m(x).logits)


@network("hf_upernet_convnext", image(64), opset=13)
def _upernet() -> Any:
    backbone = hf.ConvNextConfig(
        depths=[1, 1, 1, 1],
        hidden_sizes=[16, 24, 32, 48],
        out_features=["stage1", "stage2", "stage3", "stage4"],
        layer_scale_init_value=0.3,
    )
    config = hf.UperNetConfig(
        backbone_config=backbone, hidden_size=24, num_labels=5, use_auxiliary_head=False, pool_scales=[1, 2]
    )
    return wrap("UperNetForSemanticSegmentation", config, lambda m, x: m(x).logits)


_WHISPER = {
    "vocab_size": 200, "num_mel_bins": 40, "d_model": 64, "encoder_layers": 2, "decoder_layers": 2,
    "encoder_attention_heads": 4, "decoder_attention_heads": 4, "encoder_ffn_dim": 128, "decoder_ffn_dim": 128,
    "max_source_positions": 50, "max_target_positions": 32, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2,
    "decoder_start_token_id": 1,
}  # fmt: skip


@network("hf_whisper_encoder", signal(1, 40, 100), opset=17)
def _whisper_encoder() -> Any:
    net = lively(hf.WhisperModel(hf.WhisperConfig(attn_implementation="eager", **_WHISPER)).eval())
    return Wrapped(net.get_encoder(), lambda m, x: m(x)[0])


@network("hf_whisper_decoder", tokens(1, 12, high=200), signal(1, 50, 64), opset=17)
def _whisper_decoder() -> Any:
    net = lively(
        hf.WhisperForConditionalGeneration(hf.WhisperConfig(attn_implementation="eager", **_WHISPER)).eval()
    )

    def call(m: Any, ids: torch.Tensor, audio: torch.Tensor) -> torch.Tensor:
        return m.proj_out(
            m.model.decoder(
                input_ids=ids,
                attention_mask=torch.ones_like(ids),
                encoder_hidden_states=audio,
                use_cache=False,
            )[0]
        )

    return Wrapped(net, call)


@network("hf_wav2vec2", signal(1, 1600), opset=14)
def _wav2vec2() -> Any:
    config = hf.Wav2Vec2Config(
        conv_dim=(24, 24, 24), conv_stride=(5, 4, 4), conv_kernel=(10, 4, 4), num_feat_extract_layers=3, num_conv_pos_embeddings=8,
        num_conv_pos_embedding_groups=4, **_TEXT,
    )  # fmt: skip
    return wrap("Wav2Vec2ForCTC", config, lambda m, x: m(x).logits)


@network("hf_t5_encoder", tokens(1, 16, high=200), opset=13)
def _t5() -> Any:
    config = hf.T5Config(vocab_size=200, d_model=64, d_kv=16, d_ff=128, num_layers=2, num_heads=4)
    return wrap("T5EncoderModel", config, lambda m, ids: m(ids)[0])


@network("hf_gpt2", tokens(1, 16, high=200), opset=14)
def _gpt2() -> Any:
    config = hf.GPT2Config(vocab_size=200, n_positions=32, n_embd=64, n_layer=2, n_head=4, use_cache=False)
    return wrap("GPT2LMHeadModel", config, lambda m, ids: m(ids, attention_mask=torch.ones_like(ids)).logits)


@network("hf_llama", tokens(1, 16, high=200), opset=17)
def _llama() -> Any:
    config = hf.LlamaConfig(num_key_value_heads=2, max_position_embeddings=32, use_cache=False, **_TEXT)
    return wrap("LlamaForCausalLM", config, lambda m, ids: m(ids, attention_mask=torch.ones_like(ids)).logits)


@network("hf_yolos", image(64), opset=13)
def _yolos() -> Any:
    config = hf.YolosConfig(
        **{**_VISION, "image_size": [64, 64]},
        num_detection_tokens=10,
        num_labels=5,
        use_mid_position_embeddings=False,
    )
    return wrap("YolosForObjectDetection", config, lambda m, x: (m(x).logits, m(x).pred_boxes))


@network("hf_rtdetr", image(64), opset=17, mean=(0.0,), std=(255.0,))
def _rtdetr() -> Any:
    backbone = hf.RTDetrResNetConfig(
        embedding_size=16,
        hidden_sizes=[16, 24, 32, 48],
        depths=[1, 1, 1, 1],
        layer_type="basic",
        out_features=["stage2", "stage3", "stage4"],
    )
    config = hf.RTDetrConfig(
        backbone_config=backbone, encoder_hidden_dim=32, encoder_in_channels=[24, 32, 48], encoder_ffn_dim=64, encoder_attention_heads=4,
        d_model=32, decoder_in_channels=[32, 32, 32], decoder_ffn_dim=64, decoder_layers=2, decoder_attention_heads=4, num_queries=20,
        num_labels=5, anchor_image_size=None,
    )  # fmt: skip
    return wrap("RTDetrForObjectDetection", config, lambda m, x: (m(x).logits, m(x).pred_boxes))
