"""LSTM and GRU in fp16."""
