"""Custom operators: Python, compiled, OpenCL, RISC-V."""
