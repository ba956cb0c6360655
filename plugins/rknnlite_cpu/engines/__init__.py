"""Engines under the CPU reference: fast, and proven to give the bytes of the numpy kernels, which stay the definition.

``choice`` says which engine a context has, ``tiers`` finds the fastest while frames run, ``fastest`` keeps it for later
processes, ``partition`` says which nodes it gets, ``proof`` judges each of them, ``accelerator`` puts the parts together and
keeps what was compiled.
``inspection`` tells of it in ``info``. ``native`` is an engine of our own, the others are libraries.
"""
