// GGUF files beside llama.cpp (llama-cpp-python 0.3.36), kept by hand.
// Columns, those with a select box, then a row a line. docs/assets/tables.js shows it.
table(["model", "type", "from", "logits, at most", "128 tokens", "second turn", "with a loaded KV cache"], ["type", "from"], [
["Granite 3 MoE, with a shared expert too", "granitemoe", "GGUF, llama.cpp stored", "7e-06", "", "", ""],
["GLM-4.5, 4.6", "glm4moe", "GGUF, llama.cpp stored", "4e-06", "", "", ""],
["LFM2, LFM2-8B-A1B", "lfm2, lfm2moe", "GGUF, llama.cpp stored", "2e-05", "", "", ""],
["Hunyuan, dense and A13B", "hunyuan-dense, hunyuan-moe", "GGUF, llama.cpp stored", "2e-05", "", "", ""],
["Ministral 3", "mistral3", "GGUF, llama.cpp stored", "5e-06", "", "", ""],
["Apertus", "apertus", "GGUF, llama.cpp stored", "4e-06", "", "", ""],
["Command R7B", "cohere2", "GGUF, llama.cpp stored", "6e-06", "", "", ""],
["StableLM, one half behind the other and parallel", "stablelm", "GGUF, llama.cpp stored", "9e-06", "", "", ""],
["Phi-1.5, Phi-2", "phi2", "GGUF, llama.cpp stored", "2e-03", "", "", ""],
["Pythia, Falcon 7B", "gptneox, falcon", "GGUF, llama.cpp stored", "7e-03", "", "", ""],
["DeepSeek-V3, without biases", "deepseek2", "GGUF, llama.cpp same file", "3e-05", "", "", ""],
["DeepSeek-V2, queries through fewer channels, one group of experts", "deepseek2", "GGUF, llama.cpp same file", "2e-05", "", "", ""],
["ERNIE 4.5 MoE", "ernie4_5-moe", "GGUF, llama.cpp same file", "4e-05", "", "", ""],
["Arcee AFM without biases, Nemotron", "arcee, nemotron", "GGUF, llama.cpp same file", "4e-05", "", "", ""],
["EXAONE 4 without windows", "exaone4", "GGUF, llama.cpp same file", "5e-06", "", "", ""],
["GLM-4-9B, GLM-edge", "chatglm", "GGUF, llama.cpp same file", "2e-05", "", "", ""],
["GPT-2, Falcon 40B without biases, StarCoder2 without windows", "gpt2, falcon, starcoder2", "GGUF, llama.cpp same file", "5e-03", "", "", ""],
["GPT-OSS, YaRN's borders rounded", "gpt-oss", "GGUF, llama.cpp same file", "8e-06", "", "", ""],
["GPT-OSS, the same with experts in MXFP4", "gpt-oss", "GGUF, llama.cpp same file", "2e-02, median 7e-04, the likeliest token the same everywhere", "", "", ""]
])
