// What packages of language models may have, kept by hand.
// Columns, those with a select box, then a row a line. docs/assets/tables.js shows it.
table(["feature", "families"], ["families"], [
["sliding windows", "Qwen2, Mistral, Ministral, Gemma 2 and 3, Phi-3, OLMo 3, EXAONE 4, StarCoder2, Command R7B, ModernBERT"],
["rotary scaling linear, dynamic, llama3, yarn, longrope", "any: Llama, Gemma 3, Qwen2, Phi-3"],
["part of a head turns", "Phi-4-mini, GLM, StableLM, Nemotron, Phi, GPT-NeoX"],
["layers without rotary embedding", "SmolLM3, EXAONE 4, Command R7B"],
["other heads in layers with windows, values made of keys, norms of values", "Gemma 4"],
["layers that see the keys of others, a row of every token for each layer", "Gemma 4 E2B, E4B"],
["experts beside the network, with norms of their own", "Gemma 4 26B-A4B"],
["another rotary embedding in layers with windows", "Gemma 3 and 4, OLMo 3, ModernBERT"],
["norms of queries and keys", "Qwen3, Gemma 3, OLMo, EXAONE 4, LFM2"],
["norms behind the halves of a layer", "Gemma 2 and 3, GLM-4-0414, OLMo 2 and 3, EXAONE 4"],
["parallel halves of a layer", "Command R, StableLM"],
["limits of scores and logits", "Gemma 2, Gemma 4 (logits)"],
["latent attention (MLA)", "DeepSeek V2, V3"],
["sinks", "GPT-OSS"],
["learnt positions", "GPT-2, OPT"],
["factors of embeddings, residuals, scores, logits", "Gemma, Granite, MiniCPM, Command R"],
["mixtures of experts, shared experts, groups of experts", "Qwen2-MoE, Qwen3-MoE, Mixtral, OLMoE, Phi-3.5-MoE, Granite, GLM-4.5, ERNIE 4.5, LFM2, Hunyuan, GPT-OSS, DeepSeek V2 and V3"],
["gated convolutions in place of attention", "LFM2"],
["running states in place of attention: gated delta nets", "Qwen3-Next, Qwen3.5"],
["running states in place of attention: Mamba2", "Granite 4 H"],
["attention with a gate", "Qwen3-Next, Qwen3.5"]
])
