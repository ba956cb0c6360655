"""The Open Inference Protocol (KServe V2): what servers, boards from afar and fleets say to each other.

No web framework and no gRPC in here: requests and responses as values, their forms on the wire, and how a context
answers them.
"""
